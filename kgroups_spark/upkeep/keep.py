"""`--keep`: the state at H is saved, then the history below H is reduced, table by table, each in one commit.

A kept state counts once its audit has finished; only then is history reduced to it, by the next audit number. A kill at
any time loses nothing that a rebuild needs, and the next maintenance reduces the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from kgroups_spark.coordinator.state_entries import MARK, made_by
from kgroups_spark.errors import KgroupsError
from kgroups_spark.history.checkpoints import Horizons, Place, of_groups, reduced_to
from kgroups_spark.history.known_times import believed_until
from kgroups_spark.history.reduction import MARKERS, OF_RECORDS, RULES, STORED, Reduction
from kgroups_spark.history.shard_states import keep_states
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.failures import reported_in_one_line
from kgroups_spark.lake.frames import parquet_of
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import IS_FINISHED, REBUILD_APP_ID
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.replaced import STATE_LOGS, partition_of
from kgroups_spark.lake.saved_states import is_of_night
from kgroups_spark.lake.store import TableFile, total_rows
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.conditions import Condition, all_may_hold
from kgroups_spark.tables.internal import KEEP
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES, arrow_schema
from kgroups_spark.tasks.sinks import parts_of
from kgroups_spark.upkeep.ledger_reduction import OldAudits, old_audits, reduced_ledger
from kgroups_spark.upkeep.optimize import files_for, in_order, replace_files, total_bytes
from kgroups_spark.views.spark_sql import spark_sql

# The tables in the order of their commits: markers stay with the remaining records of the others. The ledger comes
# last, because it decides which audits are old.
IN_ORDER = (
    *(name for name in RULES if name not in (MARKERS, *STATE_LOGS)),
    *("group_traffic", "topic_offsets", MARKERS, *STATE_LOGS, CHECKPOINTS, "findings", "audits"),
)
# Kinds of tables whose removed rows are reported to people.
COUNTED = ("history", "ledger")


def answer(lake: Lake, query: str, files: Mapping[str, Sequence[TableFile]]) -> DataFrame:
    """The answer to a query of DuckDB over these files of tables, by Spark."""
    frames = {}
    for name in {*re.findall(rf"\b{STORED}(\w+)", query)}:
        paths = [f"{lake.table(name).path}/{unquote(file.path)}" for file in files[name]]
        frames[f"{STORED}{name}"] = parquet_of(lake.spark, TABLES[name].schema, paths)
    return by_spark(lake.spark, query, frames)


def by_spark(spark: SparkSession, query: str, frames: Mapping[str, Any]) -> DataFrame:
    """The answer to a query of DuckDB over frames with names in STORED + table."""
    return spark.sql(re.sub(rf"\b{STORED}\w+", r"{\g<0>}", spark_sql(query)), **frames)


def new_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[Place, int]:
    """H of each partition whose H is above the offset to which it is already reduced.

    H is the log offset of the first record later than the moment (epoch ms), but never above the start of a transaction
    that is still open there, because Kafka's cleaner stops before one.
    """
    read = (*(audit.partitions or ()), *audit.state_partitions)
    found = {(each.topic, each.offsets_partition): each.end_offset for each in read}
    files = {name: lake.table(name).files() for name in OF_RECORDS}
    reduction = Reduction({}, lake.replaced, moment_ms)
    # Rows of an unfinished audit, which a dry run sees, may have the first record after the end of this audit's log.
    _lower(found, answer(lake, reduction.first_later(believed_until(audit)), files))
    _lower(found, answer(lake, replace(reduction, horizons=found).first_spanning(), files))
    for row in lake.rows("open_transactions", columns=["offsets_partition", "transaction_start_offset"]).to_pylist():
        place = None, row["offsets_partition"]
        if place in found:
            found[place] = min(found[place], row["transaction_start_offset"])
    known = reduced_to(lake)
    return {place: at for place, at in found.items() if at > known.get(place, 0)}


def _lower(found: dict[Place, int], first: DataFrame) -> None:
    for log, partition, log_offset in first.collect():
        place = log or None, partition
        found[place] = min(found.get(place, log_offset), log_offset)


def save_states(writer: LakeWriter, audit: AuditRow, of: Horizons) -> None:
    """Adds the state at H of these partitions to checkpoints; of the two other logs only the offset to which they will
    be reduced. Nothing of it counts before the audit has finished."""
    assert audit.release_version is not None
    if groups := of_groups(of):
        # An audit writes to a table once under each application id.
        keep_states(replace(writer, app_id=REBUILD_APP_ID), groups, audit.release_version)
    facts = {**made_by(writer.audit_id, KEEP, audit.release_version), **MARK._asdict()}
    rows = [{"log": log, "offsets_partition": p, "log_offset": at, **facts} for (log, p), at in of.items() if log]
    writer.append_table(CHECKPOINTS, pa.Table.from_pylist(rows, schema=arrow_schema(CHECKPOINTS)))


class Outcome(NamedTuple):
    """The number of a table's rows before and after."""

    seen: int
    staying: int

    @property
    def gone(self) -> int:
        return self.seen - self.staying


@dataclass(frozen=True)
class KeptHistory:
    """A lake's history, reduced below `of`, and traffic, findings and the like before the moment."""

    lake: Lake
    of: Horizons
    moment_ms: int

    def apply(self, writer: LakeWriter, say: Callable[[str], None]) -> dict[str, int]:
        """Reduces every table; returns the number of removed rows by table."""
        say("reducing old history")
        removed = {name: outcome for name, outcome in self._outcomes().items() if outcome.gone}
        for name, outcome in removed.items():
            say(f"reducing {name}")
            if name == "audits":
                self._commit_ledger(writer)
            else:
                self._commit(writer, name, outcome)
        return _counted(removed)

    def foreseen(self) -> dict[str, int]:
        """The number of rows that would be removed, by table."""
        return _counted(self._outcomes())

    @cached_property
    def old(self) -> OldAudits:
        """The audits with findings and ledger rows to reduce."""
        columns = ["audit_id", "as_of", "rows_added"]
        then = LakeAsOfAudit.last_finished(self.lake)
        decided_by = pc.min(then.rows("previous_offset_expiry", ["decided_by"])["decided_by"]).as_py()
        return old_audits(
            self.lake.rows("audits", columns=columns, conditions=[IS_FINISHED]), self.moment_ms, decided_by
        )

    @cached_property
    def _files(self) -> dict[str, list[TableFile]]:
        """The files that may have rows to remove; others stay as they are."""
        names = [name for name in IN_ORDER if name != "audits"]
        return {
            name: [file for file in self.lake.table(name).files() if self._may_be_old(name, file)] for name in names
        }

    def _may_be_old(self, name: str, file: TableFile) -> bool:
        if name == CHECKPOINTS:
            return not is_of_night(file) and all_may_hold([Condition("reason", "==", KEEP)], file.bound)
        return name not in RULES or any(
            all_may_hold(
                [Condition(partition_of(name), "==", number), Condition("log_offset", "<=", at - 1)], file.bound
            )
            for (log, number), at in self.of.items()
            if (log or "") in STATE_LOGS.get(name, ("",))
        )

    @cached_property
    def _reduction(self) -> Reduction:
        return Reduction(self.of, self.lake.replaced, self.moment_ms, self.old.without_findings)

    def _outcomes(self) -> dict[str, Outcome]:
        names = [name for name in self._files if self._files[name]]
        with reported_in_one_line("old history could not be read"):
            counts = answer(self.lake, self._reduction.counts(names), self._files).collect() if names else []
        found = {name: Outcome(seen, staying) for name, seen, staying in counts}
        for name, (seen, _) in found.items():
            if seen != total_rows(self._files[name]):
                raise KgroupsError(
                    f"table {name}: {seen} of {total_rows(self._files[name])} rows were found; nothing was changed"
                )
        rows, left = self._ledger
        return {**{name: found[name] for name in names}, "audits": Outcome(len(rows), len(left))}

    @cached_property
    def _ledger(self) -> tuple[pa.Table, pa.Table]:
        """The rows up to the newest old audit, and those of them that stay."""
        rows = self.lake.rows("audits", conditions=[Condition("audit_id", "<=", self.old.newest)])
        return rows, reduced_ledger(rows, self.old, of_groups(self.of)) if self.old.newest else rows

    def _commit(self, writer: LakeWriter, name: str, outcome: Outcome) -> None:
        files = self._files[name]
        rows = answer(self.lake, self._reduction.rows_left(name), self._files)
        size = files_for(total_bytes(files) * outcome.staying // outcome.seen)
        parts = parts_of(self.lake.runner, in_order(rows, name, size), writer.part_writer(name))
        missing = outcome.staying - sum(part.records for part in parts)
        if missing:
            raise KgroupsError(
                f"table {name}: of {outcome.staying} rows {missing} would be missing; nothing was changed"
            )
        replace_files(writer, name, files, parts)

    def _commit_ledger(self, writer: LakeWriter) -> None:
        newest, name = self.old.newest, "audits"
        files = [file for file in self.lake.table(name).files() if (file.bound("minValues", "audit_id") or 0) <= newest]
        rows = self.lake.rows(name, files=files)
        newer = rows.filter(pc.greater(rows["audit_id"], newest))
        part = self.lake.write(name, [pa.concat_tables([self._ledger[1], newer]).sort_by("audit_id")], writer.audit_id)
        replace_files(writer, name, files, [part] if part else [])


def _counted(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    return {name: each.gone for name, each in outcomes.items() if each.gone and TABLES[name].kind in COUNTED}


def kept_history(lake: Lake, moment_ms: int, further: Horizons | None = None) -> KeptHistory:
    """History reduced to the newest kept states, or further, to `further` (only for a dry run)."""
    return KeptHistory(lake, {**reduced_to(lake), **(further or {})}, moment_ms)
