"""`--keep`: the state at H is saved, then the history below H is reduced, table by table, each in one commit.

A kept state counts once its audit has finished; only then is history reduced to it, by the next audit number. A kill at
any time loses nothing that a rebuild needs, and the next maintenance reduces the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.balance import by_weight
from kgroups_spark.errors import KgroupsError
from kgroups_spark.history.checkpoints import IS_KEPT, reduced_to
from kgroups_spark.history.horizons import Horizons, horizons
from kgroups_spark.history.reduction import topic_offsets_that_stay, traffic_that_stays
from kgroups_spark.history.shard_states import keep_states
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.failures import reported_in_one_line
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import IS_FINISHED, REBUILD_APP_ID
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.parts_writer import Part
from kgroups_spark.lake.saved_states import is_of_night
from kgroups_spark.lake.store import TableFile, total_rows
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.offsets.numbers import Flags
from kgroups_spark.runner import Line
from kgroups_spark.runner import numbers as task_numbers
from kgroups_spark.state_logs.keep import STATE_TABLES, StateHorizons, kept_places, states_reduced_to
from kgroups_spark.tables.arrays import flags, numbers
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.internal import KEEP
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES
from kgroups_spark.tasks.outputs import ROWS
from kgroups_spark.tasks.sinks import Given, Sink
from kgroups_spark.tasks.table_scan import scan_files
from kgroups_spark.upkeep.ledger_reduction import OldAudits, old_audits, reduced_ledger
from kgroups_spark.upkeep.optimize import columns_of_order, replace_files
from kgroups_spark.upkeep.reduce_stage import (
    MARKERS,
    SHARD_OF,
    Reduced,
    ReducedFiles,
    RowFilter,
)

# The tables in the order of their commits: markers stay with the remaining records of the others. The ledger comes
# last, because it decides which audits are old.
IN_ORDER = (
    *("offset_commits", "group_records", "quarantine", "group_versions", "group_member_versions", "group_events"),
    *("group_traffic", "topic_offsets", MARKERS, *STATE_TABLES, CHECKPOINTS, "findings", "audits"),
)
# Kinds of tables whose removed rows are reported to people.
COUNTED = ("history", "ledger")
# Rows that a task should have to reduce.
ROWS_PER_TASK = 1 << 20


def new_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[int, int]:
    """H of each offsets partition whose H is above the offset to which it is already reduced."""
    known = reduced_to(lake)
    found = horizons(lake, audit, moment_ms)
    return {p: at for p, at in found.items() if at > known.get(p, 0)}


def save_states(writer: LakeWriter, audit: AuditRow, of: Horizons, of_states: StateHorizons) -> None:
    """Adds the state at H of these partitions to checkpoints, and the offsets to which the two other logs will be
    reduced. Neither counts before the audit has finished."""
    assert audit.release_version is not None
    if of:
        # An audit writes to a table once under each application id.
        keep_states(replace(writer, app_id=REBUILD_APP_ID), of, audit.release_version)
    if of_states:
        writer.append_table(CHECKPOINTS, kept_places(of_states, audit.release_version, writer.audit_id))


@dataclass
class TableLeft:
    """The outcome for a table: its number of rows before and after, the files to remove and the parts to add; for the
    ledger, the rows that stay."""

    seen: int = 0
    left: int = 0
    files: list[TableFile] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    rows: pa.Table | None = None

    @property
    def gone(self) -> int:
        return self.seen - self.left


@dataclass(frozen=True)
class Reduction:
    """The reduction of a lake's history below `of`, of the two other logs below `of_states` (and of traffic up to the
    moment)."""

    lake: Lake
    of: Horizons
    of_states: StateHorizons
    moment_ms: int

    def apply(self, writer: LakeWriter, say: Callable[[str], None]) -> dict[str, int]:
        """Reduces every table; returns the number of removed rows by table."""
        say("reducing old history")
        removed = {}
        for name, table in self._outcomes(writer.audit_id):
            if table.gone:
                say(f"reducing {name}")
                self._commit(writer, name, table)
                if TABLES[name].kind in COUNTED:
                    removed[name] = table.gone
        return removed

    def foreseen(self) -> dict[str, int]:
        """The number of rows that would be removed, by table, counting only those of finished audits."""
        return {name: table.gone for name, table in self._outcomes(None) if table.gone and TABLES[name].kind in COUNTED}

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
    def _names(self) -> list[str]:
        """The tables to reduce."""
        names = list(IN_ORDER)
        left_out = {*(() if self.of_states else STATE_TABLES), *(() if self.old.newest else ("findings", "audits"))}
        return [name for name in names if name not in left_out]

    @cached_property
    def _reduced(self) -> Reduced:
        return Reduced(dict(self.of), dict(self.of_states), self.lake.replaced)

    @cached_property
    def _filters(self) -> dict[str, RowFilter]:
        """The tables, except the ledger, in which the decision on a row does not depend on other rows."""
        seen = self.lake.rows("topic_offsets", columns=["audit_id"]) if "topic_offsets" in self._names else None
        newest = (seen is not None and pc.max(seen["audit_id"]).as_py()) or 0
        found = {
            "group_traffic": RowFilter(("hour",), partial(traffic_that_stays, moment_ms=self.moment_ms)),
            "topic_offsets": RowFilter(
                ("seen_at", "audit_id"),
                partial(topic_offsets_that_stay, moment_ms=self.moment_ms, newest_audit_id=newest),
            ),
            CHECKPOINTS: RowFilter(
                ("audit_id", "offsets_partition", "log", "log_offset", "reason"),
                partial(_checkpoints_that_stay, newest=_newest_kept(self.lake), reduced=self._reduced),
            ),
            "findings": RowFilter(("audit_id",), partial(_not_of_audits, audit_ids=self.old.without_findings)),
        }
        for name in ("group_events", "state_events"):
            found[name] = RowFilter(self._reduced.place(name), partial(_not_old, name=name, reduced=self._reduced))
        return {name: each for name, each in found.items() if name in self._names}

    def _outcomes(self, audit_id: int | None) -> Iterator[tuple[str, TableLeft]]:
        """The outcomes, with the parts that this audit's tasks have written; `audit_id` None: rows are only counted."""
        files = {name: self._files(name) for name in self._names if name != "audits"}
        old, rows_of = self._old_files({name: files[name] for name in SHARD_OF if name in files})
        chosen = old | {name: files[name] for name in self._filters}
        tasks = min(1 + rows_of.total() // ROWS_PER_TASK, 2 * self.lake.runner.slots)
        work = ReducedFiles(
            self.lake.uri,
            self._reduced,
            self._filters,
            {name: [file.path for file in some] for name, some in chosen.items()},
            [file.path for file in files[MARKERS]],
            by_weight(sorted(rows_of), rows_of.__getitem__, tasks),
            is_dry=audit_id is None,
        )
        sink = Sink(self.lake.runner, {ROWS: self.lake.uri}, audit_id or 0, columns_of_order)
        with reported_in_one_line("a task could not reduce old history"):
            given = Given(
                task_numbers(len(work.shards)), [self._uris({**chosen, MARKERS: files[MARKERS]})] * len(work.shards)
            )
            facts = sink.run(given, work.outputs).facts if any(chosen.values()) else []
        outcomes = _outcomes(facts, chosen)
        for _, part in sink.parts:
            outcomes[part.table].parts.append(part)
        for name, some in old.items():
            if some and outcomes[name].seen != total_rows(some):
                raise KgroupsError(
                    f"table {name}: {outcomes[name].seen} of {total_rows(some)} rows were found; nothing was changed"
                )
        for name in self._names:
            yield name, self._ledger() if name == "audits" else outcomes.get(name, TableLeft())

    def _uris(self, files: Mapping[str, Sequence[TableFile]]) -> list[str]:
        return [f"{self.lake.uri}/{name}/{unquote(file.path)}" for name, some in files.items() for file in some]

    def _files(self, name: str) -> list[TableFile]:
        files = self.lake.table(name).files()
        return [file for file in files if not is_of_night(file)] if name == CHECKPOINTS else files

    def _old_files(
        self, files: Mapping[str, Sequence[TableFile]]
    ) -> tuple[dict[str, list[TableFile]], Counter[tuple[str, int]]]:
        """The files with a row below H, by table (other files stay as they are), and their number of rows of each shard
        (its column and number)."""
        candidates = {name: [file for file in some if self._may_be_old(name, file)] for name, some in files.items()}
        columns = {name: self._reduced.place(name) for name in candidates}
        old, rows_of = dict[str, set[str]](), Counter[tuple[str, int]]()
        for _, (name, path, counts) in scan_files(
            self.lake, candidates, columns, partial(_look_for_old, self._reduced)
        ):
            old.setdefault(name, set()).add(path)
            rows_of.update({(SHARD_OF[name], number): rows for number, rows in counts})
        return {name: [file for file in files[name] if file.path in paths] for name, paths in old.items()}, rows_of

    def _may_be_old(self, name: str, file: TableFile) -> bool:
        """Whether the file may have rows below H, by its statistics."""
        first, last = (file.bound(which, SHARD_OF[name]) for which in ("minValues", "maxValues"))
        oldest = file.bound("minValues", "log_offset")
        if first is None or last is None or oldest is None:
            return True
        of = self.of.items() if name not in STATE_TABLES else [(p, at) for (_, p), at in self.of_states.items()]
        return any(first <= p <= last and oldest < at for p, at in of)

    def _ledger(self) -> TableLeft:
        """The rows up to the newest old audit, and those of them that stay."""
        rows = self.lake.rows("audits", conditions=[Condition("audit_id", "<=", self.old.newest)])
        left = reduced_ledger(rows, self.old, self.of)
        return TableLeft(len(rows), len(left), rows=left)

    def _commit(self, writer: LakeWriter, name: str, table: TableLeft) -> None:
        if name == "audits":
            assert table.rows is not None
            self._commit_ledger(writer, table.rows)
        else:
            replace_files(writer, name, table.files, table.parts)

    def _commit_ledger(self, writer: LakeWriter, left: pa.Table) -> None:
        newest, name = self.old.newest, "audits"
        files = [file for file in self.lake.table(name).files() if (file.bound("minValues", "audit_id") or 0) <= newest]
        rows = self.lake.rows(name, files=files)
        newer = rows.filter(pc.greater(rows["audit_id"], newest))
        part = self.lake.write(name, [pa.concat_tables([left, newer]).sort_by("audit_id")], writer.audit_id)
        replace_files(writer, name, files, [part] if part else [])


def _outcomes(facts: Iterable[Any], files: Mapping[str, Sequence[TableFile]]) -> dict[str, TableLeft]:
    found = {name: TableLeft(files=[*some] if name in SHARD_OF else []) for name, some in files.items()}
    by_path = {name: {file.path: file for file in some} for name, some in files.items()}
    for name, path, seen, left in facts:
        found[name].seen += seen
        found[name].left += left
        if path is not None:
            found[name].files.append(by_path[name][path])
    return found


def _look_for_old(reduced: Reduced, name: str, path: str, lots: Iterator[pa.Table]) -> Iterator[Line]:
    counts, has_old = Counter[int](), False
    for rows in lots:
        has_old = has_old or bool(reduced.is_old(name, rows).any())
        for each in rows[SHARD_OF[name]].value_counts().to_pylist():
            counts[each["values"]] += each["counts"]
    if has_old:
        yield "old", [name, path, [*counts.items()]]


def _not_of_audits(rows: pa.Table, audit_ids: Sequence[int]) -> Flags:
    return ~np.isin(numbers(rows["audit_id"]), audit_ids)


def _not_old(rows: pa.Table, name: str, reduced: Reduced) -> Flags:
    """Which events stay: those at or above H, because no current table depends on events."""
    return ~reduced.is_old(name, rows)


# (log, partition) -> the newest audit that kept a state of it.
_Newest = Mapping[tuple[str | None, int], int]


def _newest_kept(lake: Lake) -> _Newest:
    columns = ["log", "offsets_partition"]
    rows = lake.rows(CHECKPOINTS, columns=[*columns, "audit_id"], conditions=[*IS_KEPT])
    newest = rows.group_by(columns).aggregate([("audit_id", "max")]).to_pylist()
    return {(row["log"], row["offsets_partition"]): row["audit_id_max"] for row in newest}


def _checkpoints_that_stay(rows: pa.Table, newest: _Newest, reduced: Reduced) -> Flags:
    """Which rows of checkpoints stay: all except kept states with a newer one of the same partition of the same log,
    and except replaced rows below H."""
    rows, is_replaced = reduced.replaced.parted(CHECKPOINTS, rows)
    goes = is_replaced & reduced.is_old(CHECKPOINTS, rows)
    kept = flags(pc.equal(rows["reason"], KEEP)) & ~is_replaced
    partition, audit_id = numbers(rows["offsets_partition"]), numbers(rows["audit_id"])
    for (log, number), at in newest.items():
        is_of_log = pc.is_null(rows["log"]) if log is None else pc.fill_null(pc.equal(rows["log"], log), False)
        goes |= kept & (partition == number) & (audit_id != at) & flags(is_of_log)
    return ~goes


def reduction(
    lake: Lake,
    moment_ms: int,
    further: Horizons | None = None,
    further_states: StateHorizons | None = None,
) -> Reduction:
    """The reduction to the newest kept states, or further, to `further` and `further_states` (only for a dry run)."""
    of_states = {**states_reduced_to(lake), **(further_states or {})}
    return Reduction(lake, {**reduced_to(lake), **(further or {})}, of_states, moment_ms)
