"""Facts that only a live cluster knows, asked once per audit: the rows of `cluster_facts`. A fact that an ACL denies is
left out, and a note names the ACL that allows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.cluster.cluster import (
    DEFAULT_CONFIG,
    EARLIEST,
    LATEST,
    SET_FOR_GROUP,
    Cluster,
    Configs,
    describe_configs,
    groups_with_configs,
)
from kgroups_spark.cluster.requests import UNKNOWN_TOPIC, ClusterUnreachable, OffsetAnswer, Throttled, TopicMetadata
from kgroups_spark.coordinator.broker_release import Broker, release_of_brokers
from kgroups_spark.lake.lake import Lake
from kgroups_spark.replay.state_logs import ClusterFact
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.rows import table_of_rows
from kgroups_spark.words import JAVA_INT_MAX, JAVA_LONG_MAX, UNITS_MS, counted, java_number, to_epoch_ms

OFFSETS_RETENTION = "offsets.retention.minutes"
DELETE_RETENTION = "delete.retention.ms"
# Configurations of brokers that concern a coordinator.
OF_COORDINATORS = ("errors.deadletterqueue.", "group.", "offsets.", "share.", "transaction.", "transactional.")


class ClusterFacts(NamedTuple):
    """The cluster's facts; durations in ms, None: not known, with the reason in `notes`."""

    cluster_id: str | None
    # (topic id, topic) of every topic that we may see.
    topic_ids: tuple[tuple[str, str], ...]
    # In the form of --release-version, with its source and the remaining uncertainty.
    release_version: str | None
    release_evidence: str
    # The brokers' offsets.retention.minutes, and delete.retention.ms of the offsets topic.
    offsets_retention_ms: int | None
    delete_retention_ms: int | None
    # Notes for people: ACLs that are missing, and that brokers differ in a retention.
    notes: tuple[str, ...]
    rows: tuple[ClusterFact, ...]


def cluster_facts(cluster: Cluster, offsets_topic: str = "__consumer_offsets") -> ClusterFacts:
    """Asks the cluster, and each leader of the offsets topic. Raises ClusterUnreachable, but never for a missing
    ACL."""
    topics = cluster.topics()
    leaders, notes = _ask_leaders(cluster, topics.get(offsets_topic))
    reported = release_of_brokers({node: broker for node, (broker, _) in leaders.items()})
    of_brokers = {node: configs for node, (_, configs) in leaders.items()}
    retention_ms, retention_notes = _offsets_retention(of_brokers)
    delete_retention_ms, topic_notes = _delete_retention(cluster, offsets_topic)
    of_groups, group_notes = _group_configs(cluster)
    of_leaders = _leaders(topics.get(offsets_topic), cluster.brokers())
    return ClusterFacts(
        cluster_id=cluster.cluster_id,
        topic_ids=tuple(sorted((t.topic_id, t.name) for t in topics.values() if t.topic_id is not None)),
        release_version=reported.release,
        release_evidence=reported.evidence,
        offsets_retention_ms=retention_ms,
        delete_retention_ms=delete_retention_ms,
        notes=(*notes, *retention_notes, *topic_notes, *group_notes),
        rows=(*_of_brokers(leaders), *of_groups, *of_leaders),
    )


def _ask_leaders(cluster: Cluster, topic: TopicMetadata | None) -> tuple[dict[int, tuple[Broker, Configs]], list[str]]:
    """Brokers that coordinate groups (all if no partition has a leader), by node id; those that did not answer."""
    leading = {each.leader for each in topic.partitions.values() if each.leader is not None} if topic else set()
    found: dict[int, tuple[Broker, Configs]] = {}
    notes = []
    for node in sorted(leading or cluster.brokers()):
        try:
            found[node] = _ask_leader(cluster, node)
        except (ClusterUnreachable, Throttled) as err:
            notes.append(f"broker {node} reported neither its release nor its configuration: {err}")
    return found, notes


def _ask_leader(cluster: Cluster, node: int) -> tuple[Broker, Configs]:
    answer = cluster.api_versions(node)
    configs = describe_configs(cluster, "broker", [str(node)], node_id=node)[str(node)]
    broker = Broker(
        supported={each.name: each.max_version for each in answer.supported_features or ()},
        finalized={each.name: each.max_version_level for each in answer.finalized_features or ()},
        requests={each.api_key: each.max_version for each in answer.api_keys},
        configs=None if configs.error else {name: value for name, value in configs.values.items() if value is not None},
    )
    return broker, configs


def _offsets_retention(configs: Mapping[int, Configs]) -> tuple[int | None, list[str]]:
    """The shortest of the brokers' retentions, each of which expires the offsets of the partitions that it leads."""
    reported = {node: value for node, each in configs.items() if (value := each.values.get(OFFSETS_RETENTION))}
    minutes = {node: number for node, value in reported.items() if (number := java_number(value, 1, JAVA_INT_MAX))}
    errors = [each for each in configs.values() if each.error]
    what = f"{OFFSETS_RETENTION} of the brokers"
    notes = [_not_known(what, each, "cluster kafka-cluster") for each in errors[:1]]
    notes += [
        _passed_over(f"{OFFSETS_RETENTION} of broker {node}", value)
        for node, value in reported.items()
        if node not in minutes
    ]
    if len(set(minutes.values())) > 1:
        of = ", ".join(f"{value} on broker {node}" for node, value in sorted(minutes.items()))
        notes.append(f"{OFFSETS_RETENTION} differs: {of}; the shortest is used for all partitions")
    return (min(minutes.values()) * UNITS_MS["m"] if minutes else None), notes


def _of_brokers(leaders: Mapping[int, tuple[Broker, Configs]]) -> Iterator[ClusterFact]:
    levels: dict[str, int] = {}
    for node, (broker, configs) in leaders.items():
        for name, level in broker.finalized.items():
            levels[name] = max(level, levels.get(name, 0))
        for name, value in configs.values.items():
            if name.startswith(OF_COORDINATORS):
                source: Literal["set", "default"] = "default" if configs.sources[name] == DEFAULT_CONFIG else "set"
                yield ClusterFact("broker_config", name, value, source, broker=node)
    for name, level in levels.items():
        yield ClusterFact("feature", name, str(level))


def _leaders(topic: TopicMetadata | None, addresses: Mapping[int, str]) -> Iterator[ClusterFact]:
    for number, each in sorted(topic.partitions.items()) if topic else ():
        if each.leader is not None:
            yield ClusterFact("leader", str(number), addresses.get(each.leader), broker=each.leader)


def _delete_retention(cluster: Cluster, offsets_topic: str) -> tuple[int | None, list[str]]:
    configs = describe_configs(cluster, "topic", [offsets_topic], [DELETE_RETENTION])[offsets_topic]
    if configs.error:
        return None, [_not_known(f"{DELETE_RETENTION} of topic {offsets_topic}", configs, f"topic {offsets_topic}")]
    value = configs.values.get(DELETE_RETENTION)
    number = java_number(value, 0, JAVA_LONG_MAX) if value else None
    if value and number is None:
        return None, [_passed_over(f"{DELETE_RETENTION} of topic {offsets_topic}", value)]
    return number, []


def _passed_over(what: str, value: str) -> str:
    return f"{what} is ignored: {value!r} is not a valid number for it"


def _group_configs(cluster: Cluster) -> tuple[list[ClusterFact], list[str]]:
    """The configurations that were set for single groups, which override those of their members and brokers; without a
    name: they are unknown, without a group, too: it is unknown which groups have some."""
    names = groups_with_configs(cluster)
    if isinstance(names, Configs):
        # Before 4.1 brokers do not list these groups, so nothing is missing: a group has its own limit since 4.3.
        if names.error == "UNSUPPORTED_VERSION":
            return [], []
        unknown = [ClusterFact("group_config", None, None)]
        return unknown, [_not_known("the configuration of single groups", names, "cluster kafka-cluster")]
    rows, failed = [], {}
    for name, each in describe_configs(cluster, "group", names).items():
        own = sorted(key for key, source in each.sources.items() if source == SET_FOR_GROUP)
        rows += [ClusterFact("group_config", key, each.values[key], "set", group_id=name) for key in own]
        if each.error:
            rows.append(ClusterFact("group_config", None, None, group_id=name))
            failed[name] = each
    notes = []
    for name in list(failed)[:1]:
        others = f" and {counted(len(failed) - 1, 'other')}" if len(failed) > 1 else ""
        notes = [_not_known(f"the configuration of group {name}{others}", failed[name], f"group {name}")]
    return rows, notes


def _not_known(what: str, configs: Configs, resource: str) -> str:
    """The reason why a fact is unknown, and the remedy."""
    if (configs.error or "").endswith("_AUTHORIZATION_FAILED"):
        return f"{what} is unknown: grant DESCRIBE_CONFIGS on {resource}"
    return f"{what} is unknown: the broker answered {configs.error}"


# The rows of `topic_offsets`: log start and end of topics with committed offsets, from their leaders, in lots of one
# or two requests to a broker; the start first, so that it is never greater than the end.


Status = Literal["ok", "unknown_topic", "not_authorized", "unavailable"]
Partition = tuple[str, int]

# Topics to ask for at once, with all their partitions.
TOPICS_AT_ONCE = 2_000
# How long a request waits for partitions that have no leader now.
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
    gone. Topics to which members subscribe, with their first partition."""
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
    subscribed = lake.rows("group_members", columns=["subscribed_topics"])["subscribed_topics"]
    found.update((topic, 0) for topic in pc.unique(pc.list_flatten(subscribed)).to_pylist())
    return sorted(found)


def topic_offsets(cluster: Cluster, committed: Iterable[Partition]) -> Iterator[TopicOffset]:
    """A row for every partition of the topics of `committed`, and for those of `committed` that no longer exist; by
    topic and partition. Raises ClusterUnreachable.
    """
    wanted: dict[str, set[int]] = {}
    for name, number in committed:
        wanted.setdefault(name, set()).add(number)
    names = iter(sorted(wanted))
    while lot := list(islice(names, TOPICS_AT_ONCE)):
        topics = cluster.topics([name for name in lot if LEGAL.fullmatch(name)])
        there = [(name, number) for name, each in topics.items() for number in each.partitions]
        starts = cluster.list_offsets(there, EARLIEST, timeout_ms=PATIENCE_MS)
        known = [each for each in there if starts[each].offset is not None]
        ends = cluster.list_offsets(known, LATEST, timeout_ms=PATIENCE_MS)
        for name in lot:
            topic = topics.get(name)
            for number in sorted(wanted[name] | set(topic.partitions if topic else ())):
                yield _row(name, number, topic, starts.get((name, number)), ends.get((name, number)))


def topic_offsets_table(rows: Iterable[TopicOffset], audit_id: int, seen_at: datetime) -> pa.Table:
    seen_ms = to_epoch_ms(seen_at)
    columns = (*TopicOffset._fields, "seen_at")
    return table_of_rows("topic_offsets", columns, [(*row, seen_ms) for row in rows], audit_id=audit_id)


def topic_offsets_notes(rows: pa.Table) -> list[str]:
    """Notes for people on topics without known ends; `rows` as topic_offsets_table returns them."""
    forbidden = sorted(set(rows.filter(pc.field("status") == "not_authorized")["topic"].to_pylist()))
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
