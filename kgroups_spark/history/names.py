"""Names in the whole history: names of topic ids, and the possible numbers of partitions of the offsets topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.decoding.partition_count import fitting_partition_counts
from kgroups_spark.decoding.topic_names import COMMIT, TOPIC_FIELDS, Sighting, TopicNames
from kgroups_spark.messages.group_records import value_from_json
from kgroups_spark.offsets.records import milliseconds
from kgroups_spark.times import to_epoch_ms

# The columns in which names are looked for.
NAMING = {
    "offset_commits": ("group_id", "topic", "topic_id", "log_timestamp"),
    "group_records": ("group_id", "record_type", "value", "log_timestamp"),
}


@dataclass(frozen=True)
class HistoryNames:
    """`topics`: (topic id, topic, earliest log time in epoch ms or None, source). `partition_counts`: for each offsets
    partition the numbers of partitions under which all groups seen there hash to it."""

    topics: tuple[Sighting, ...]
    partition_counts: tuple[tuple[int, ...], ...]

    def with_topics(self, topics: Iterable[Sighting]) -> HistoryNames:
        """These names, and the sightings of earlier audits."""
        names = TopicNames()
        names.merge(self.topics)
        names.merge(topics)
        return replace(self, topics=tuple(names.rows()))


def sightings(topics: Iterable[Mapping[str, Any]]) -> list[Sighting]:
    """Rows of the table `topics` as sightings."""
    return [(r["topic_id"], r["topic"], _ms(r["seen_log_timestamp"]), r["source"]) for r in topics]


def _ms(seen: datetime | None) -> int | None:
    return None if seen is None else to_epoch_ms(seen)


@dataclass
class NamesOfShard:
    """Collects the names in records of an offsets partition."""

    offsets_partition: int
    topics: TopicNames = field(default_factory=TopicNames)
    groups: set[str] = field(default_factory=set)

    def see(self, table: str, rows: pa.Table) -> None:
        """Adds the names in rows of offset_commits or group_records; ignores other tables."""
        if table == "offset_commits":
            self._see_commits(rows)
        elif table == "group_records":
            self._see_group_records(rows)

    def rest(self) -> dict[str, Any]:
        """All collected names, as a JSON value."""
        counts = [fitting_partition_counts(self.groups, self.offsets_partition)] if self.groups else []
        return {"topics": self.topics.rows(), "partition_counts": counts}

    def _see_commits(self, rows: pa.Table) -> None:
        self.groups.update(rows.column("group_id").cast(pa.string()).unique().to_pylist())
        named = rows.filter(rows.column("topic_id").is_valid())
        times = pa.table(
            {
                **{name: named.column(name).cast(pa.string()) for name in ("topic_id", "topic")},
                "seen": milliseconds(named.column("log_timestamp")),
            }
        )
        for row in times.group_by(["topic_id", "topic"]).aggregate([("seen", "min")]).to_pylist():
            self.topics.add(row["topic_id"], row["topic"], -1 if row["seen_min"] is None else row["seen_min"], COMMIT)

    def _see_group_records(self, rows: pa.Table) -> None:
        self.groups.update(rows.column("group_id").cast(pa.string()).unique().to_pylist())
        naming = rows.filter(pc.field("record_type").isin([*TOPIC_FIELDS]) & pc.field("value").is_valid())
        columns = (naming.column("record_type"), naming.column("value"), milliseconds(naming.column("log_timestamp")))
        for record_type, text, seen in zip(*(column.to_pylist() for column in columns), strict=True):
            self.topics.add_value(record_type, value_from_json(text), -1 if seen is None else seen)


def names_of_shards(reported: Iterable[dict[str, Any]]) -> HistoryNames:
    """The names of all shards, from the results of NamesOfShard."""
    topics, counts = TopicNames(), list[tuple[int, ...]]()
    for each in reported:
        topics.merge(tuple(sighting) for sighting in each["topics"])
        counts += map(tuple, each["partition_counts"])
    return HistoryNames(tuple(topics.rows()), tuple(counts))
