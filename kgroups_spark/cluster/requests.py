"""The requests of audits, as classes of kafka-python: they read uncommitted records, too, and create no topic."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka.errors import kafka_errors
from kafka.protocol.consumer import FetchRequest, IsolationLevel, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from kgroups_spark.errors import KgroupsError
from kgroups_spark.messages.schema import uuid_text

# Older versions return messages converted to the formats before 0.11, or create topics on request.
OLDEST_FETCH, OLDEST_METADATA, OLDEST_LIST_OFFSETS = 4, 4, 1
# The first version of Fetch with topic ids, not names (KIP-516): a topic created again is then another one.
FETCH_BY_ID = 13
MAX_WAIT_MS = 500  # fetch.max.wait.ms, Kafka's default


def metadata_request(names: Sequence[str] | None) -> MetadataRequest:
    """The topics of these names; None: all."""
    topics = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False, min_version=OLDEST_METADATA)


def list_offsets_request(
    leader_epochs: Mapping[str, Mapping[int, int]], at: int, *, timeout_ms: int
) -> ListOffsetsRequest:
    """The offsets `at` of the partitions by topic, each with the known epoch of its leader."""
    topic_of = ListOffsetsRequest.ListOffsetsTopic
    topics = [
        topic_of(
            name=name,
            partitions=[
                topic_of.ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=at)
                for number, epoch in partitions.items()
            ],
        )
        for name, partitions in leader_epochs.items()
    ]
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        topics=topics,
        timeout_ms=timeout_ms,
        min_version=OLDEST_LIST_OFFSETS,
    )


def fetch_request(
    topic: str,
    topic_id: str | None,
    partition: int,
    offset: int,
    *,
    leader_epoch: int,
    last_epoch: int | None,
    max_bytes: int,
) -> FetchRequest:
    """Batches of one partition from `offset` on. `last_epoch`: the epoch of the batch before it; None: unknown."""
    kafkas_id = None if topic_id is None else uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))
    wanted = FetchRequest.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=-1 if last_epoch is None else last_epoch,
        log_start_offset=-1,
        partition_max_bytes=max_bytes,
    )
    return FetchRequest(
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        session_id=0,  # no session: requests are independent
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, topic_id=kafkas_id, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",  # brokers then name no replica nearby (KIP-392)
        min_version=OLDEST_FETCH,
        max_version=None if topic_id else FETCH_BY_ID - 1,
    )


# Failures between us and a Kafka cluster, and Kafka's names for them.


class ClusterUnreachable(KgroupsError):
    """No answer in the time allowed: no listener, a name does not resolve, connections break, brokers are silent."""


class KafkaRefused(KgroupsError):
    """A broker answered with an error that is not retriable."""


class Throttled(KafkaRefused):
    """A broker throttles us for longer than we may wait."""


# Where kafka-python 3.0.12 keeps a name that Kafka has changed (Errors.java 4.3.1).
RENAMED = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
}

# Another broker leads the partition, or will in a moment: ask for the metadata again.
LEADERSHIP = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "LISTENER_NOT_FOUND",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
    }
)
# The broker cannot answer now. KAFKA_STORAGE_ERROR: its disk has failed, and another one is about to lead.
# UNKNOWN_SERVER_ERROR is retried, as in the Java consumer (FetchCollector.java 4.3.1).
PASSING = LEADERSHIP | {
    "BROKER_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "NETWORK_EXCEPTION",
    "OFFSET_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_SERVER_ERROR",
}
# The topic does not exist; a broker that has just started reports this for all topics for a while.
UNKNOWN_TOPIC = frozenset({"INCONSISTENT_TOPIC_ID", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION"})


def error_name(code: int) -> str | None:
    """Kafka's name of an error code; None: no error."""
    if code == 0:
        return None
    if code in RENAMED:
        return RENAMED[code]
    known = kafka_errors.get(code)
    return known.message if known else f"error {code}"


def not_authorized(operation: str, resource: str) -> KgroupsError:
    """The error that names the ACL: `not_authorized("READ", "topic __consumer_offsets")`."""
    return KgroupsError(f"not authorized: grant {operation} on {resource}")


# Brokers' answers, checked before any other code uses them.


class PartitionMetadata(NamedTuple):
    leader: int | None  # node id; None: no leader now
    leader_epoch: int  # -1: brokers before 2.1
    error: str | None  # Kafka's name, such as LEADER_NOT_AVAILABLE


class TopicMetadata(NamedTuple):
    name: str
    topic_id: str | None  # as Kafka prints it, 22 characters of URL-safe base64; None: none (before 2.8), or unknown
    partitions: dict[int, PartitionMetadata]
    error: str | None


class OffsetAnswer(NamedTuple):
    """A broker's answer to ListOffsets for a partition. `offset` None: `error` is the reason."""

    offset: int | None
    error: str | None
    detail: str = ""  # of NETWORK_EXCEPTION: what happened to the connection


class FetchAnswer(NamedTuple):
    """A leader's answer for a partition: whole batches, but the last may be cut; with an error none, and
    `high_watermark` may be -1. THROTTLING_QUOTA_EXCEEDED: the next request waits for the time in the answer."""

    records: bytes
    high_watermark: int
    error: str | None
    detail: str = ""  # of NETWORK_EXCEPTION and REQUEST_TIMED_OUT: what happened to the connection
    diverges_at: int | None = None  # the log differs from this offset on: it was truncated and appended to


def said(answer: OffsetAnswer | FetchAnswer) -> str | None:
    """The error, and what happened to the connection; None: no error."""
    return f"{answer.error}: {answer.detail}" if answer.detail else answer.error


def topic_id_text(topic_id: uuid.UUID | None) -> str | None:
    """A topic id as Kafka prints it: 22 characters of URL-safe base64."""
    return None if topic_id is None else uuid_text(topic_id.bytes)


def topic_metadata(topic: Any, has_sound_epochs: bool) -> TopicMetadata:
    partitions = {
        each.partition_index: PartitionMetadata(
            leader=each.leader_id if each.leader_id >= 0 else None,
            leader_epoch=each.leader_epoch if has_sound_epochs else -1,
            error=error_name(each.error_code),
        )
        for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
    }
    return TopicMetadata(topic.name, topic_id_text(topic.topic_id), partitions, error_name(topic.error_code))


def newer(known: TopicMetadata | None, reported: TopicMetadata) -> TopicMetadata:
    """The leaders in an answer, but newer known ones stay: brokers learn of a new leader at different times."""
    if known is None or reported.topic_id is None or known.topic_id != reported.topic_id:
        return reported
    partitions = {
        number: known.partitions[number]
        if number in known.partitions and known.partitions[number].leader_epoch > metadata.leader_epoch
        else metadata
        for number, metadata in reported.partitions.items()
    }
    return reported._replace(partitions=partitions)


def no_offset(error: str, detail: str = "") -> OffsetAnswer:
    return OffsetAnswer(None, error, detail)


def offset_answer(answer: Any) -> OffsetAnswer:
    if error := error_name(answer.error_code):
        return no_offset(error)
    if answer.offset < 0:
        return no_offset(f"an answer with offset {answer.offset}")
    return OffsetAnswer(answer.offset, None)


def no_records(error: str, detail: str = "") -> FetchAnswer:
    return FetchAnswer(b"", -1, error, detail)


def fetch_answer(response: Any, partition: int) -> FetchAnswer:
    """The partition's part of a Fetch response. Raises KafkaRefused if the leader redirects us to another replica."""
    if error := error_name(response.error_code):
        return no_records(error)
    if not response.responses and response.throttle_time_ms > 0:
        # A broker that throttles answers at once, and without the partition (KIP-219, FetchContext.java 4.3.1).
        return no_records("THROTTLING_QUOTA_EXCEEDED")
    found = [each for topic in response.responses for each in topic.partitions if each.partition_index == partition]
    if not found:
        return no_records("UNKNOWN_SERVER_ERROR", f"the answer does not have partition {partition}")
    answer = found[0]
    if error := error_name(answer.error_code):
        return no_records(error)
    if answer.preferred_read_replica >= 0 and not answer.records:
        # KIP-392: no records, because another replica should serve them. We name no rack, so only a custom selector of
        # the cluster does this; "no records" would be wrong.
        raise KafkaRefused(
            f"the leader of partition {partition} redirects us to replica {answer.preferred_read_replica} instead of "
            "answering: set replica.selector.class so that clients without client.rack read from the leader"
        )
    diverging = answer.diverging_epoch
    return FetchAnswer(
        records=answer.records or b"",
        high_watermark=answer.high_watermark,
        error=None,
        diverges_at=diverging.end_offset if diverging is not None and diverging.end_offset >= 0 else None,
    )
