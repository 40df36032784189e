"""The source of an audit: folders of segments, or a live cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kgroups_spark.audit.options import STATE_LOGS, AuditOptions, require_partition_count
from kgroups_spark.audit.settings import AuditSettings, settle
from kgroups_spark.counts import counted
from kgroups_spark.decoding.topic_names import CLUSTER, Sighting
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.messages.coordinator_logs import SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.number_ranges import number_ranges
from kgroups_spark.sources.copies import choose_copies
from kgroups_spark.sources.high_watermarks import HIGH_WATERMARKS
from kgroups_spark.sources.partition_log import PartitionLog
from kgroups_spark.sources.segment_log import SegmentLog
from kgroups_spark.sources.segments import (
    OFFSETS_TOPIC,
    PartitionCopy,
    find_any_partitions,
    find_partitions,
)
from kgroups_spark.times import to_epoch_ms

if TYPE_CHECKING:
    from kgroups_spark.client.properties import ClientProperties
    from kgroups_spark.cluster.cluster import Cluster


@dataclass(frozen=True)
class LogSource:
    """The log to read, and its facts. `name`: its name in the ledger.

    For a live cluster also: how tasks reach it, the open connection, the number of offsets partitions, and the names of
    topic ids. `state_logs`: the other logs that the options ask for, by topic; a log that does not exist has no
    partitions, and one that cannot be read is not there. `states_without_answer`: their partitions, as
    __transaction_state-3, whose leaders did not answer.
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


@contextmanager
def open_source(options: AuditOptions) -> Iterator[LogSource]:
    """The log that the options name; a connection is closed afterwards. Raises KgroupsError."""
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
    )


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
