"""Names in the whole history: topic ids that it names, and how many partitions the offsets topic may have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from kgroups_spark.decoding.partition_count import fitting_by_partition
from kgroups_spark.decoding.topic_names import COMMIT, GROUP_RECORD, TOPIC_FIELDS, Sighting, TopicNames, named_topics
from kgroups_spark.messages.group_records import value_from_json
from kgroups_spark.times import to_epoch_ms

SIGHTINGS = StructType().add("topic_id", StringType()).add("topic", StringType()).add("seen", LongType())


@dataclass(frozen=True)
class HistoryNames:
    """`topics`: (topic id, topic, earliest log time in ms or None, source). `partition_counts`: per offsets partition
    the numbers of partitions under which all groups seen there belong there."""

    topics: tuple[Sighting, ...]
    partition_counts: tuple[tuple[int, ...], ...]

    def with_topics(self, topics: Iterable[Sighting]) -> HistoryNames:
        """These, and others that were seen before."""
        names = TopicNames()
        names.merge(self.topics)
        names.merge(topics)
        return replace(self, topics=tuple(names.rows()))


def sightings(topics: Iterable[Mapping[str, Any]]) -> list[Sighting]:
    """Rows of the table `topics` as sightings."""
    return [(r["topic_id"], r["topic"], _ms(r["seen_log_timestamp"]), r["source"]) for r in topics]


def _ms(seen: datetime | None) -> int | None:
    return None if seen is None else to_epoch_ms(seen)


def names_of_history(offset_commits: DataFrame, group_records: DataFrame) -> HistoryNames:
    """The names in all records."""
    names = TopicNames()
    for frame, source in ((_in_commits(offset_commits), COMMIT), (_in_group_records(group_records), GROUP_RECORD)):
        for row in frame.groupBy("topic_id", "topic").agg(F.min("seen").alias("seen")).collect():
            names.add(row.topic_id, row.topic, -1 if row.seen is None else row.seen, source)
    return HistoryNames(tuple(names.rows()), tuple(_partition_counts(offset_commits, group_records)))


def _in_commits(offset_commits: DataFrame) -> DataFrame:
    seen = F.unix_millis("log_timestamp").alias("seen")
    return offset_commits.where("topic_id IS NOT NULL").select("topic_id", "topic", seen)


def _in_group_records(group_records: DataFrame) -> DataFrame:
    """A row for each topic that a value names."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            named = [
                (topic_id, topic, seen)
                for record_type, text, seen in zip(*(column.to_pylist() for column in batch.columns), strict=True)
                for topic_id, topic in named_topics(record_type, value_from_json(record_type, text))
            ]
            columns = list(zip(*named, strict=True)) or [(), (), ()]
            types = (pa.string(), pa.string(), pa.int64())
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, its_type) for column, its_type in zip(columns, types, strict=True)],
                names=SIGHTINGS.names,
            )

    naming = group_records.where(F.col("record_type").isin(*TOPIC_FIELDS) & F.col("value").isNotNull())
    return naming.select("record_type", "value", F.unix_millis("log_timestamp")).mapInArrow(task, SIGHTINGS)


def _partition_counts(offset_commits: DataFrame, group_records: DataFrame) -> Iterator[tuple[int, ...]]:
    columns = ("offsets_partition", "group_id")
    groups = offset_commits.select(*columns).union(group_records.select(*columns)).distinct().toArrow()
    return map(tuple, fitting_by_partition(zip(*(groups.column(name).to_pylist() for name in columns), strict=True)))
