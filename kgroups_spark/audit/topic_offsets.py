"""The log start and end of topics with committed offsets, from their leaders: the rows of `topic_offsets`.

Metadata lists the topics and partitions. Their leaders return the start and end of the logs, in lots of one or two
requests to a broker. The start is requested first, so that it is never greater than the end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.cluster.answers import OffsetAnswer, TopicMetadata
from kgroups_spark.cluster.cluster import EARLIEST, LATEST, Cluster
from kgroups_spark.cluster.errors import UNKNOWN_TOPIC
from kgroups_spark.counts import counted
from kgroups_spark.lake.lake import Lake
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.times import to_epoch_ms

Status = Literal["ok", "unknown_topic", "not_authorized", "unavailable"]
Partition = tuple[str, int]

# Topics to ask for at once, with all their partitions.
TOPICS_AT_ONCE = 2_000
# How long to wait, in all, for partitions that have no leader now.
PATIENCE_MS = 15_000

# Topic names legal in some release (Topic.java; 255 before 0.10.0.1). Other names are in the log only by a client's
# mistake: no cluster has such a topic, and some brokers fail when they are asked for it.
LEGAL = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,255}")


class TopicOffset(NamedTuple):
    """A row of `topic_offsets`, without the values that all rows of an audit share."""

    topic: str
    topic_id: str | None
    partition: int
    log_start_offset: int | None
    log_end_offset: int | None
    status: Status


def asked_partitions(lake: Lake, audit_id: int) -> list[Partition]:
    """The (topic, partition)s with committed offsets, or offsets of share groups, from the lake's present current
    tables, and those whose offsets were removed in this audit's records for an unknown cause: their topic may be
    gone."""
    found = set[Partition]()
    removed = [Condition("audit_id", "==", audit_id), Condition("event", "==", "offset_removed")]
    for table, conditions in (
        ("committed_offsets", []),
        ("share_partitions", [Condition("topic", "is not null")]),
        ("group_events", [*removed, Condition("cause", "==", "unknown")]),
    ):
        rows = lake.rows(table, columns=["topic", "partition"], conditions=conditions)
        distinct = rows.group_by(["topic", "partition"]).aggregate([])
        found.update(zip(distinct["topic"].to_pylist(), distinct["partition"].to_pylist(), strict=True))
    return sorted(found)


def topic_offsets(cluster: Cluster, committed: Iterable[Partition]) -> Iterator[TopicOffset]:
    """A row for every partition of the topics of `committed`, and for those of `committed` that no longer exist; by
    topic and partition. Raises ClusterUnreachable.
    """
    wanted: dict[str, set[int]] = {}
    for topic, partition in committed:
        wanted.setdefault(topic, set()).add(partition)
    patience = _Patience()
    names = iter(sorted(wanted))
    while lot := list(islice(names, TOPICS_AT_ONCE)):
        yield from _of_topics(cluster, {name: wanted[name] for name in lot}, patience)


def topic_offsets_table(rows: Iterable[TopicOffset], audit_id: int, seen_at: datetime) -> pa.Table:
    seen_ms = to_epoch_ms(seen_at)
    columns = (*TopicOffset._fields, "seen_at")
    batch = table_batch("topic_offsets", columns, [(*row, seen_ms) for row in rows], audit_id=audit_id)
    return pa.Table.from_batches([batch], arrow_schema("topic_offsets"))


def topic_offsets_notes(rows: pa.Table) -> list[str]:
    """Notes for people on topics without known ends; `rows` as topic_offsets_table returns them."""
    forbidden = _topics(rows, "not_authorized")
    unavailable = rows.filter(pc.field("status") == "unavailable")
    notes = []
    if forbidden:
        others = f" and {counted(len(forbidden) - 1, 'other')}" if len(forbidden) > 1 else ""
        notes.append(
            f"log start and end of {counted(len(forbidden), 'topic')} with committed offsets are unknown: grant "
            f"DESCRIBE on topic {forbidden[0]}{others}"
        )
    if unavailable.num_rows:
        first = unavailable.slice(0, 1).to_pylist()[0]
        notes.append(
            f"could not fetch log start and end of {counted(unavailable.num_rows, 'partition')} of topics with "
            f"committed offsets, {first['topic']}-{first['partition']} among them: no leader answered"
        )
    return notes


class _Patience:
    """The milliseconds left to wait, for all requests together."""

    def __init__(self) -> None:
        self.left_ms = PATIENCE_MS

    def asked(self, cluster: Cluster, partitions: Sequence[Partition], at: int) -> dict[Partition, OffsetAnswer]:
        began = time.monotonic()
        answers = cluster.list_offsets(partitions, at, timeout_ms=self.left_ms) if partitions else {}
        if any(_status(answer.error) == "unavailable" for answer in answers.values()):
            self.left_ms = max(0, self.left_ms - int(1000 * (time.monotonic() - began)))
        return answers


def _of_topics(cluster: Cluster, wanted: dict[str, set[int]], patience: _Patience) -> Iterator[TopicOffset]:
    topics = cluster.topics([name for name in wanted if LEGAL.fullmatch(name)])
    there = [(name, number) for name, topic in topics.items() for number in topic.partitions]
    starts = patience.asked(cluster, there, EARLIEST)
    ends = patience.asked(cluster, [each for each in there if starts[each].offset is not None], LATEST)
    for name, committed in wanted.items():
        topic = topics.get(name)
        for number in sorted(committed | set(topic.partitions if topic else ())):
            start, end = starts.get((name, number)), ends.get((name, number))
            yield _row(name, number, topic, start, end)


def _row(
    name: str, number: int, topic: TopicMetadata | None, start: OffsetAnswer | None, end: OffsetAnswer | None
) -> TopicOffset:
    topic_id = topic.topic_id if topic else None
    if start is not None and end is not None and end.error is None:
        return TopicOffset(name, topic_id, number, start.offset, end.offset, "ok")
    if start is not None:
        return TopicOffset(name, topic_id, number, None, None, _status((end or start).error))
    status = _status(topic.error) if topic is not None and topic.error is not None else "unknown_topic"
    return TopicOffset(name, topic_id, number, None, None, status)


def _status(error: str | None) -> Status:
    """The status of a topic or partition by Kafka's error; INVALID_TOPIC_EXCEPTION: no topic can have that name."""
    if error is None:
        return "ok"
    if error in UNKNOWN_TOPIC or error == "INVALID_TOPIC_EXCEPTION":
        return "unknown_topic"
    return "not_authorized" if error == "TOPIC_AUTHORIZATION_FAILED" else "unavailable"


def _topics(rows: pa.Table, status: Status) -> list[str]:
    return sorted(set(rows.filter(pc.field("status") == status)["topic"].to_pylist()))
