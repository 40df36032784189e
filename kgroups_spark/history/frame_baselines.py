"""Where reduced history begins to count: states that `kgroups maintain --keep` wrote down before it reduced what lies
below them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_rows import STATE_FORMAT


@dataclass(frozen=True)
class Baseline:
    """The state of an offsets partition before `log_offset`, written by audit `audit_id`."""

    log_offset: int
    audit_id: int


@dataclass(frozen=True)
class Baselines:
    """For each offsets partition the one to start from; a partition without one is replayed from its first record.

    `is_reduced`: some partition's history no longer is all that was read.
    """

    by_partition: dict[int, Baseline]
    is_reduced: bool

    @classmethod
    def of(cls, state_corrections: DataFrame, release_version: str) -> Baselines:
        """The newest of each partition, if it was made by today's rules: another state cannot be gone on from, and
        what is left of the history is replayed as a broker loads a compacted log."""
        ours = (
            (F.col("release_version") == release_version)
            & (F.col("rules_version") == RULES_VERSION)
            & (F.col("state_format") == STATE_FORMAT)
        )
        newest = F.max(F.struct("audit_id", "log_offset", ours.alias("is_ours"))).alias("newest")
        found = state_corrections.where("correction = 'baseline'").groupBy("offsets_partition").agg(newest)
        rows = found.select("offsets_partition", "newest.*").collect()
        return cls(
            {row.offsets_partition: Baseline(row.log_offset, row.audit_id) for row in rows if row.is_ours},
            bool(rows),
        )

    @property
    def starts(self) -> dict[int, int]:
        """Per offsets partition the log offset at which its baseline stands."""
        return {number: each.log_offset for number, each in self.by_partition.items()}

    def state(self, state_corrections: DataFrame) -> DataFrame:
        """The entries of these baselines."""
        is_newest = (F.col("audit_id") == self._audit_id()) & (F.col("log_offset") == self._log_offset())
        return state_corrections.where((F.col("correction") == "baseline") & is_newest)

    def not_before(self, rows: DataFrame) -> DataFrame:
        """The records that are to be replayed on top of them."""
        return (
            rows.where(F.col("log_offset") >= F.coalesce(self._log_offset(), F.lit(0))) if self.by_partition else rows
        )

    def before(self, rows: DataFrame) -> DataFrame:
        """Rows that earlier replays made of records before them: no replay can make them again."""
        return rows.where(F.col("log_offset") < self._log_offset())

    def corrections(self, state_corrections: DataFrame) -> DataFrame:
        """The corrections of the state that are not in them: one is made where an audit's log ends, and belongs to what
        was before."""
        rows = state_corrections.where(F.col("correction").isin("put", "remove"))
        if not self.by_partition:
            return rows
        made_since = (F.col("log_offset") == self._log_offset()) & (F.col("audit_id") > self._audit_id())
        return rows.where(self._log_offset().isNull() | (F.col("log_offset") > self._log_offset()) | made_since)

    def _log_offset(self) -> Column:
        return _looked_up(self.starts)

    def _audit_id(self) -> Column:
        return _looked_up({number: each.audit_id for number, each in self.by_partition.items()})


def _looked_up(by_partition: dict[int, int]) -> Column:
    """The number of the row's offsets partition; null: it has none."""
    found = F.lit(None).cast("bigint")
    if not by_partition:
        return found
    pairs = [
        F.lit(part).cast(kind)
        for pair in by_partition.items()
        for part, kind in zip(pair, ("int", "bigint"), strict=True)
    ]
    return F.element_at(F.create_map(*pairs), F.col("offsets_partition"))
