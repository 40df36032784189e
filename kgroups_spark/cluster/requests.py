"""The requests of audits, as classes of kafka-python: they read uncommitted records, too, and create no topic."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence

from kafka.protocol.consumer import FetchRequest, IsolationLevel, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

# Older versions return messages converted to the formats before 0.11, or create topics on request.
OLDEST_FETCH, OLDEST_METADATA, OLDEST_LIST_OFFSETS = 4, 4, 1
# The first version of Fetch with topic ids, not names (KIP-516): a topic created again is then another one.
FETCH_BY_ID = 13


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
    max_wait_ms: int,
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
        max_wait_ms=max_wait_ms,
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
