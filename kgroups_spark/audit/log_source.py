"""The source of an audit: folders of segments, or a live cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from kgroups_spark.audit.options import STATE_LOGS, AuditOptions, require_partition_count
from kgroups_spark.audit.plan import DEFAULT_DELETE_RETENTION_MS
from kgroups_spark.coordinator.releases import NEWEST, expiry_rules
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.messages.coordinator_records import SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.replay.counts import CLUSTER, Sighting
from kgroups_spark.replay.state_logs import DELIVERY_COUNT_LIMIT, ClusterFact
from kgroups_spark.replay.state_logs import Settings as StateSettings
from kgroups_spark.sources.partition_log import PartitionLog
from kgroups_spark.sources.segment_log import SegmentLog, choose_copies
from kgroups_spark.sources.segments import (
    HIGH_WATERMARKS,
    OFFSETS_TOPIC,
    PartitionCopy,
    find_any_partitions,
    find_partitions,
)
from kgroups_spark.words import counted, number_ranges, to_epoch_ms

if TYPE_CHECKING:
    from kgroups_spark.audit.cluster_facts import ClusterFacts
    from kgroups_spark.cluster.client_properties import ClientProperties
    from kgroups_spark.cluster.cluster import Cluster


# The settings of an audit's decisions: from the options, else from the cluster, else the defaults.


RetentionSource = Literal["option", "broker", "default"]


@dataclass(frozen=True)
class AuditSettings:
    """The settled settings. `as_of`: epoch ms; None: from the log's times and the clock (replay/log_times.py).
    `clock_ms`: this machine's clock at the start of the audit, epoch ms. `offsets_partitions` None: the only number
    that fits every group's hash. `states`: settings of the other coordinators, from the last known facts of the
    cluster."""

    release_version: str
    retention_ms: int
    retention_source: RetentionSource
    delete_retention_ms: int
    clock_ms: int
    as_of: int | None = None
    offsets_partitions: int | None = None
    states: StateSettings = field(default_factory=StateSettings)


def settle(options: AuditOptions, clock_ms: int, facts: ClusterFacts | None = None) -> AuditSettings:
    """The settings of an audit of segments, or of a cluster (`facts`). `clock_ms`: the clock (epoch ms) before the
    cluster was asked for log ends."""
    release_version = options.release_version or (facts and facts.release_version) or NEWEST
    retention_ms, source = _retention(options, facts, release_version)
    of_topic = facts.delete_retention_ms if facts else None
    return AuditSettings(
        release_version,
        retention_ms,
        source,
        next(ms for ms in (options.delete_retention_ms, of_topic, DEFAULT_DELETE_RETENTION_MS) if ms is not None),
        clock_ms,
        options.as_of,
        options.offsets_partitions,
    )


def _retention(options: AuditOptions, facts: ClusterFacts | None, release_version: str) -> tuple[int, RetentionSource]:
    if options.retention_ms is not None:
        return options.retention_ms, "option"
    if facts is not None and facts.offsets_retention_ms is not None:
        return facts.offsets_retention_ms, "broker"
    return expiry_rules(release_version).default_retention_ms, "default"


@dataclass(frozen=True)
class LogSource:
    """The log to read, and its facts. `name`: its name in the ledger.

    For a live cluster also: how tasks reach it, the open connection, the number of offsets partitions, and the names of
    topic ids. `state_logs`: the other logs that the options ask for, by topic; a log that does not exist has no
    partitions, and one that cannot be read is not there. `states_without_answer`: their partitions, as
    __transaction_state-3, whose leaders did not answer. `facts`: rows of `cluster_facts`, for segments only those that
    the options give.
    """

    name: str
    logs: Sequence[PartitionLog]
    settings: AuditSettings
    notes: list[str] = field(default_factory=list)
    client: ClientProperties | None = None
    cluster: Cluster | None = None
    offsets_partitions: int | None = None
    topics: tuple[Sighting, ...] = ()
    state_logs: Mapping[str, Sequence[PartitionLog]] = field(default_factory=dict)
    states_without_answer: tuple[str, ...] = ()
    facts: tuple[ClusterFact, ...] = ()


@contextmanager
def open_source(options: AuditOptions) -> Iterator[LogSource]:
    """The log that the options name; a connection is closed afterwards. Raises KgroupsError."""
    if options.records is not None:
        from kgroups_spark.audit.archive import write_segments

        with TemporaryDirectory(prefix="kgroups-records-") as folder:
            options.progress(f"reading {options.records}")
            notes = write_segments(options.records, Path(folder))
            source = _segments(replace(options, segments=[folder]))
            yield replace(source, notes=[*source.notes, *notes])
        return
    if options.client is None:
        source = _segments(options)
        require_partition_count(options.offsets_partitions, (log.partition for log in source.logs))
        yield source
        return
    # Imported here, because kafka-python takes a quarter of a second.
    from kgroups_spark.cluster.cluster import Cluster

    with Cluster(options.client) as cluster:
        source = _live(options, options.client, cluster)
        require_partition_count(options.offsets_partitions, range(source.offsets_partitions or 0))
        yield source


def _segments(options: AuditOptions) -> LogSource:
    """One copy of each partition to read."""
    choice = choose_copies(find_partitions(options.segments))
    copies = choice.copies
    if options.partitions is not None:
        wanted = set(options.partitions)
        if missing := sorted(wanted - {copy.partition for copy in copies}):
            raise UsageError(f"no partition {missing[0]} in {', '.join(options.segments)}")
        copies = [copy for copy in copies if copy.partition in wanted]
    notes = [*choice.notes, *_of_unknown_commitment(copies)]
    states = {topic: choose_copies(find_any_partitions(options.segments, topic)) for topic in state_topics(options)}
    notes += [note for chosen in states.values() for note in chosen.notes]
    return LogSource(
        "segments",
        [SegmentLog(copy) for copy in copies],
        settle(options, _clock_ms()),
        notes,
        state_logs={topic: [SegmentLog(c) for c in chosen.copies] for topic, chosen in states.items()},
        facts=_of_options(options),
    )


def _of_options(options: AuditOptions) -> tuple[ClusterFact, ...]:
    limit = options.share_delivery_count_limit
    return () if limit is None else (ClusterFact("broker_config", DELIVERY_COUNT_LIMIT, str(limit), "option"),)


def state_topics(options: AuditOptions) -> list[str]:
    """The other logs to read, if they exist."""
    names = {"share-state": SHARE_LOG.topic, "transaction-state": TRANSACTION_LOG.topic}
    return [names[each] for each in STATE_LOGS if each in options.include]


def _of_unknown_commitment(copies: Sequence[PartitionCopy]) -> list[str]:
    """A note on partitions that are missing from their log directory's checkpoint of high watermarks."""
    unknown = [copy.partition for copy in copies if copy.has_checkpoint and copy.committed_to is None]
    if not unknown:
        return []
    return [
        f"{HIGH_WATERMARKS} does not name {counted(len(unknown), 'partition')} ({number_ranges(unknown)}): read to the "
        "end, although the last records may not be committed"
    ]


def _live(options: AuditOptions, client: ClientProperties, cluster: Cluster) -> LogSource:
    from kgroups_spark.audit.cluster_facts import cluster_facts
    from kgroups_spark.cluster.live_log import live_logs

    clock_ms = _clock_ms()
    options.progress("asking the cluster")
    found = live_logs(cluster, OFFSETS_TOPIC, options.partitions, max_bytes_per_second=options.max_bytes_per_second)
    facts = cluster_facts(cluster, OFFSETS_TOPIC)
    states, without_answer, not_read = _live_states(options, cluster)
    evidence = [facts.release_evidence] if options.release_version is None else []
    notes = [*found.notes, *evidence, *facts.notes, *not_read]
    return LogSource(
        "kafka",
        found.logs,
        settle(options, clock_ms, facts),
        notes,
        client,
        cluster,
        len(found.topic.partitions),
        tuple((topic_id, topic, None, CLUSTER) for topic_id, topic in facts.topic_ids),
        states,
        tuple(without_answer),
        (*facts.rows, *_of_options(options)),
    )


def _live_states(
    options: AuditOptions, cluster: Cluster
) -> tuple[dict[str, Sequence[PartitionLog]], list[str], list[str]]:
    """Other logs (none: the cluster does not have it), their partitions without an answer, and notes on logs that could
    not be read: an audit does without them."""
    from kgroups_spark.cluster.live_log import NoOffsetsTopic, live_logs

    logs: dict[str, Sequence[PartitionLog]] = {}
    without_answer, notes = list[str](), list[str]()
    for topic in state_topics(options):
        try:
            found = live_logs(cluster, topic, max_bytes_per_second=options.max_bytes_per_second)
        except NoOffsetsTopic:
            logs[topic] = []
            continue
        except KgroupsError as error:
            notes.append(f"{topic} is not read: {error}")
            continue
        logs[topic] = found.logs
        without_answer += [f"{topic}-{number}" for number in found.without_answer]
        notes += [f"{topic}: {note}" for note in found.notes]
    return logs, without_answer, notes


def _clock_ms() -> int:
    return to_epoch_ms(datetime.now(UTC))
