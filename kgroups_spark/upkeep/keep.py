"""`--keep`: the state at H is saved, then what lies below H is reduced, table by table, each in one commit.

A baseline counts once its audit has finished; only then is history reduced to it, by the next audit number. Whatever is
killed in between, nothing is gone that a rebuild needs, and the next maintenance reduces what is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from urllib.parse import unquote

import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kgroups_spark.history.baseline_rows import baseline_rows
from kgroups_spark.history.baselines import newest_baselines
from kgroups_spark.history.horizons import Horizons, horizons, horizons_frame
from kgroups_spark.history.reduction import (
    reduced_events,
    reduced_group_records,
    reduced_markers,
    reduced_offset_commits,
    reduced_quarantine,
    reduced_topic_offsets,
    reduced_traffic,
    reduced_versions,
)
from kgroups_spark.lake.kernel import TableFile
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import IS_FINISHED
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.replaced import NOTHING
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.state_logs.keep import (
    BASELINE,
    FRAME,
    PLACE,
    RULES,
    StateHorizons,
    newest_state_baselines,
    reduced_state_log,
    state_baseline_rows,
    with_log,
)
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.upkeep.ledger_reduction import OldAudits, old_audits, reduced_ledger
from kgroups_spark.upkeep.optimize import Change, rewrite

# Tables whose rows go with their audit, whatever place of the log they name.
OF_AUDITS = ("findings", "audits")
# Kinds of tables of which a person should know how many rows went.
COUNTED = ("history", "ledger")


def new_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[int, int]:
    """H of each offsets partition, where history below it is more than what is reduced already."""
    known = newest_baselines(lake)
    return {p: at for p, at in horizons(lake, audit, moment_ms).items() if at > known.get(p, 0)}


def save_baseline(writer: LakeWriter, audit: AuditRow, of: Horizons, of_states: StateHorizons) -> None:
    """Appends the state at H of these partitions to state_corrections, and how far those of the two other logs will be
    reduced: in one commit, as an audit writes to a table once."""
    assert audit.release_version is not None
    rows = state_baseline_rows(writer.lake, of_states, audit.release_version, writer.audit_id)
    if of:
        rows = rows.unionByName(baseline_rows(writer.lake, of, audit.release_version, writer.audit_id))
    writer.append("state_corrections", rows)


@dataclass(frozen=True)
class Reduction:
    """The reduction of a lake's history below `of`, of the two other logs below `of_states` (and of traffic up to the
    moment)."""

    lake: Lake
    of: Horizons
    of_states: StateHorizons
    moment_ms: int

    def apply(self, writer: LakeWriter, say: Callable[[str], None]) -> dict[str, int]:
        """Reduces every table; how many rows went, by table."""
        removed = {}
        for name, change in self.changes():
            say(f"reducing {name}")
            gone = self._reduce(writer, name, change)
            if gone and TABLES[name].kind in COUNTED:
                removed[name] = gone
        return removed

    def foreseen(self) -> dict[str, int]:
        """How many rows would go, by table, if only those of finished audits are there."""
        counts = {}
        for name, change in self.changes():
            rows = self.lake.read(name, replaced=NOTHING)
            gone = rows.count() - change(rows).count()
            if gone and TABLES[name].kind in COUNTED:
                counts[name] = gone
        return counts

    def changes(self) -> Iterator[tuple[str, Change]]:
        """The fate of each table's rows; markers last, as they stay with what is left of the others."""
        replaced = self.lake.replaced
        for name, change in self._changes():
            yield name, partial(self._with_replaced, name, change) if replaced.touches(name) else change

    def _with_replaced(self, name: str, change: Change, rows: DataFrame) -> DataFrame:
        """Replaced rows count for nothing that is left, and go where all others go but the last of each key."""
        replaced = self.lake.replaced
        is_old = F.col("log_offset") < F.col("horizon")
        gone = replaced.alone(name, rows).join(F.broadcast(self._frame), "offsets_partition", "left")
        stays = gone.where(~F.coalesce(is_old, F.lit(False))).select(*rows.columns)
        return change(replaced.left_out(name, rows)).unionByName(stays)

    def _changes(self) -> Iterator[tuple[str, Change]]:
        read, of = self.lake.read, self._frame
        yield "offset_commits", lambda rows: reduced_offset_commits(rows, read("transaction_markers"), of)
        yield "group_records", lambda rows: reduced_group_records(rows, read("transaction_markers"), of)
        yield "quarantine", lambda rows: reduced_quarantine(rows, of)
        yield "group_versions", lambda rows: reduced_versions(rows, of)
        yield "group_member_versions", lambda rows: reduced_versions(rows, of)
        if self.lake.has("group_events"):  # as topic_offsets below
            yield "group_events", lambda rows: reduced_events(rows, of)
        yield "group_traffic", lambda rows: reduced_traffic(rows, self.moment_ms)
        if self.lake.has("topic_offsets"):  # only foreseen, without a claim, a lake may be of an older layout
            yield "topic_offsets", self._topic_offsets
        yield "transaction_markers", self._markers
        for name in RULES if self.of_states else ():
            yield name, partial(reduced_state_log, name, horizons=self._state_frame)
        yield "state_corrections", without_old_baselines
        if self.old.newest:
            if self.lake.has("findings"):
                yield "findings", self._findings
            yield "audits", self._audits  # last: it says which audits are old

    def _markers(self, rows: DataFrame) -> DataFrame:
        read = self.lake.read
        return reduced_markers(rows, read("offset_commits"), read("group_records"), read("quarantine"), self._frame)

    def _topic_offsets(self, rows: DataFrame) -> DataFrame:
        newest = self.lake.read("topic_offsets").agg(F.max("audit_id")).first()
        return reduced_topic_offsets(rows, self.moment_ms, (newest and newest[0]) or 0)

    @cached_property
    def old(self) -> OldAudits:
        """The audits of which findings and rows of the ledger are reduced."""
        columns = ["audit_id", "as_of", "rows_added"]
        decided_by = pc.min(self.lake.rows("previous_offset_expiry", columns=["decided_by"])["decided_by"]).as_py()
        return old_audits(
            self.lake.rows("audits", columns=columns, conditions=[IS_FINISHED]), self.moment_ms, decided_by
        )

    def _findings(self, rows: DataFrame) -> DataFrame:
        gone = self.lake.spark.createDataFrame([(n,) for n in self.old.without_findings], "audit_id bigint")
        return rows.join(F.broadcast(gone), "audit_id", "left_anti").select(*rows.columns)

    def _audits(self, rows: DataFrame) -> DataFrame:
        left = reduced_ledger(rows.where(F.col("audit_id") <= self.old.newest).toArrow(), self.old, self.of)
        reduced = self.lake.spark.createDataFrame(left, TABLES["audits"].schema)
        return reduced.unionByName(rows.where(F.col("audit_id") > self.old.newest))

    @cached_property
    def _frame(self) -> DataFrame:
        return horizons_frame(self.lake.spark, self.of)

    @cached_property
    def _state_frame(self) -> DataFrame:
        rows = [(*place, at) for place, at in sorted(self.of_states.items())]
        return self.lake.spark.createDataFrame(rows, FRAME)

    def _reduce(self, writer: LakeWriter, name: str, change: Change) -> int:
        if writer.name == "parts":
            files = self._old_files(name)
            return rewrite(writer, name, files, change) if files else 0
        rows = self.lake.read(name, replaced=NOTHING)
        if name == "audits":
            rows = rows.where(F.col("audit_id") <= self.old.newest)
        kept = change(rows)
        gone = rows.count() - kept.count()
        if gone and name == "audits":
            writer.replace_others(name, kept, f"audit_id <= {self.old.newest}")
        elif gone:
            writer.replace(name, kept)
        return gone

    def _old_files(self, name: str) -> list[TableFile]:
        """The table's files with a row below H: the change looks at such rows alone, and leaves the others."""
        log = self.lake.table(name)
        if name in OF_AUDITS:
            return [file for file in log.files() if (file.bound("minValues", "audit_id") or 0) <= self.old.newest]
        files = [file for file in log.files() if name in RULES or self._may_be_old(file)]
        if not files or "log_offset" not in TABLES[name].schema.names or name == "state_corrections":
            return files
        paths = [f"{log.path}/{unquote(file.path)}" for file in files]
        place, frame = (PLACE, self._state_frame) if name in RULES else (("offsets_partition",), self._frame)
        rows = self.lake.spark.read.schema(TABLES[name].schema).parquet(*paths)
        rows = with_log(name, rows.withColumn("file_name", F.col("_metadata.file_name")))
        places = rows.select(*place, "log_offset", "file_name")
        old = places.join(F.broadcast(frame), list(place)).where("log_offset < horizon")
        names = {row.file_name for row in old.select("file_name").distinct().collect()}
        return [file for file in files if unquote(file.path).rsplit("/", 1)[-1] in names]

    def _may_be_old(self, file: TableFile) -> bool:
        """As far as the file's statistics tell."""
        first, last = (file.bound(which, "offsets_partition") for which in ("minValues", "maxValues"))
        oldest = file.bound("minValues", "log_offset")
        if first is None or last is None or oldest is None:
            return True
        return any(first <= p <= last and oldest < at for p, at in self.of.items())


def without_old_baselines(state_corrections: DataFrame) -> DataFrame:
    """The rows but for baselines of which there is a newer one of the same partition of the same log."""
    is_baseline = F.col("correction").isin("baseline", BASELINE)
    log = F.when(F.col("correction") == BASELINE, F.col("entry_type"))
    newest = F.max(F.when(is_baseline, F.col("audit_id"))).over(
        Window.partitionBy("offsets_partition", "correction", log)
    )
    rows = state_corrections.withColumn("_newest", newest)
    return rows.where(~is_baseline | (F.col("audit_id") == F.col("_newest"))).drop("_newest")


def reduction(
    lake: Lake, moment_ms: int, further: Horizons | None = None, further_states: StateHorizons | None = None
) -> Reduction:
    """The reduction to the newest baselines, or where `further` say so beyond them (only to foresee it)."""
    of_states = {**newest_state_baselines(lake), **(further_states or {})}
    return Reduction(lake, {**newest_baselines(lake), **(further or {})}, of_states, moment_ms)
