"""The history that a lake has stored, as the replay takes it: what a rebuild, a baseline and a comparison replay."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.history.frame_baselines import Baselines
from kgroups_spark.replay.history_parts import part_schema
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.tasks.packed_rows import packed_by_shard


@dataclass(frozen=True)
class StoredHistory:
    """The rows to be replayed, by table.

    quarantine         records that do not decode
    state_corrections  what was corrected in the state since
    coordinator_state  where the replay begins; None: at the first record
    """

    offset_commits: DataFrame
    group_records: DataFrame
    transaction_markers: DataFrame
    quarantine: DataFrame
    state_corrections: DataFrame
    coordinator_state: DataFrame | None = None

    def since(self, baselines: Baselines) -> StoredHistory:
        """The records behind the baselines, and the state of these."""
        corrections = self.state_corrections
        state = baselines.state(corrections) if baselines.by_partition else None
        found = self._with_records(baselines.not_before)
        return replace(found, state_corrections=baselines.corrections(corrections), coordinator_state=state)

    def below(self, horizons: DataFrame) -> StoredHistory:
        """The rows below the horizon of each offsets partition; of other partitions none."""

        def within(rows: DataFrame, condition: str) -> DataFrame:
            return rows.join(F.broadcast(horizons), "offsets_partition").where(condition).drop("horizon")

        found = self._with_records(lambda rows: within(rows, "log_offset < horizon"))
        # A correction is made where an audit's log ends: it belongs to what was before.
        corrections = within(self.state_corrections, "log_offset <= horizon")
        state = self.coordinator_state
        state = None if state is None else within(state, "log_offset <= horizon")
        return replace(found, state_corrections=corrections, coordinator_state=state)

    def of_partitions(self, numbers: Collection[int]) -> StoredHistory:
        """The rows of these offsets partitions."""
        is_one = F.col("offsets_partition").isin(*numbers)
        found = self._with_records(lambda rows: rows.where(is_one))
        return replace(found, state_corrections=self.state_corrections.where(is_one))

    def of_groups(self, groups: DataFrame) -> StoredHistory:
        """The records of these groups (offsets_partition, group_id), and all that belongs to no group."""

        def some(rows: DataFrame) -> DataFrame:
            return rows.join(F.broadcast(groups), ["offsets_partition", "group_id"], "left_semi").select(*rows.columns)

        corrections = self.state_corrections
        of_no_group = corrections.where("group_id IS NULL")
        return replace(
            self,
            offset_commits=some(self.offset_commits),
            group_records=some(self.group_records),
            state_corrections=some(corrections).unionByName(of_no_group),
        )

    def parts(self) -> DataFrame:
        """All of it as PACKED_BY_SHARD."""
        tables = {name: getattr(self, name) for name in (*LOG_TABLES, "state_corrections", "coordinator_state")}
        packed = [packed_by_shard(rows, name, part_schema(name)) for name, rows in tables.items() if rows is not None]
        return reduce(DataFrame.unionByName, packed)

    def _with_records(self, change: Callable[[DataFrame], DataFrame]) -> StoredHistory:
        return replace(self, **{name: change(getattr(self, name)) for name in LOG_TABLES})
