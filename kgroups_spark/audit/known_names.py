"""Names of topic ids, and the number of partitions of `__consumer_offsets`.

Both come from the user, the cluster, earlier audits and the log just read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from kgroups_spark.audit.log_source import LogSource
from kgroups_spark.audit.saved_state import SavedState
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.decoding.partition_count import fits_none, fitting_by_partition, is_ambiguous
from kgroups_spark.decoding.partition_count import partition_count as only_count
from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.decoding.topic_names import CLUSTER, Sighting, TopicNames
from kgroups_spark.history.names import sightings
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.tables.rows import table_batch


@dataclass(frozen=True)
class KnownNames:
    """The names that an audit knows. `then`: the tables of the last finished audit (None: no audit has finished).
    `state`: the state that it saved. `given_count`: the partition count from the user; None: none was given."""

    lake: Lake
    then: LakeAsOfAudit | None
    state: SavedState
    source: LogSource | None
    given_count: int | None

    def partition_count(self, progress: list[RangeProgress]) -> int | None:
        """The partition count of the offsets topic: from the user, the cluster, or the only number that fits."""
        if self._reported_count is not None:
            return self._reported_count
        fitting = self._fitting(progress)
        return only_count([*fitting, *self._counts_read] if is_ambiguous(fitting) else fitting)

    def no_count_fits(self, progress: list[RangeProgress]) -> bool:
        """Whether the partition count is unknown because the groups of some partitions contradict each other."""
        return self._reported_count is None and fits_none(self._fitting(progress))

    def topics(self, progress: list[RangeProgress]) -> TopicNames:
        """The names of topic ids that any audit has seen."""
        names = TopicNames()
        names.merge(self._topics_before)
        names.merge(self.source.topics if self.source is not None else ())
        for each in progress:
            names.merge(each.topics)
        return names

    def topics_table(self, progress: list[RangeProgress], audit_id: int) -> pa.Table:
        columns = ("topic_id", "topic", "seen_log_timestamp", "source")
        rows = sorted(self.topics(progress).rows())
        return pa.Table.from_batches([table_batch("topics", columns, rows, audit_id=audit_id)])

    @property
    def _reported_count(self) -> int | None:
        """The partition count from the user or the cluster."""
        if self.given_count is not None:
            return self.given_count
        return None if self.source is None else self.source.offsets_partitions

    def _fitting(self, progress: list[RangeProgress]) -> list[list[int]]:
        """The possible partition counts by partition, by the groups of this audit and the last one."""
        return [*(each.partition_counts for each in progress), *self._counts_before]

    # Read once and before anything is committed: this audit rewrites both tables.

    @cached_property
    def _counts_before(self) -> list[list[int]]:
        """The possible partition counts of the offsets topic, by the groups of the last audit."""
        if self.state.names is not None:
            return [list(counts) for counts in self.state.names.partition_counts]
        if self.then is None:
            return []
        groups = self.then.rows("groups").select(["offsets_partition", "group_id"]).to_pydict()
        return fitting_by_partition(zip(groups["offsets_partition"], groups["group_id"], strict=True))

    @cached_property
    def _counts_read(self) -> list[list[int]]:
        """The same by all groups that any audit has read, including deleted ones."""
        if self.then is None:
            return []
        groups = self.lake.rows("group_traffic", columns=["offsets_partition", "group_id"]).to_pydict()
        return fitting_by_partition({*zip(groups["offsets_partition"], groups["group_id"], strict=True)})

    @cached_property
    def _topics_before(self) -> list[tuple[str, str, int | None, str]]:
        """The rows of `topics` that the last audit left."""
        if self.state.names is not None:
            return list(self.state.names.topics)
        if self.then is None:
            return []
        return sightings(self.then.rows("topics").to_pylist())


def known_topics(names: TopicNames) -> Topics:
    """The names for a shard. The id of a topic name is the cluster's, otherwise the one with the latest first
    sighting."""
    topics = Topics()
    rows = names.rows()
    for topic_id, topic, seen, source in sorted(rows, key=_learned_when):
        topics.learn(topic_id, topic, seen, source)
    return topics


def _learned_when(sighting: Sighting) -> tuple[bool, int, str]:
    topic_id, _, seen, source = sighting
    return source == CLUSTER, -1 if seen is None else seen, topic_id
