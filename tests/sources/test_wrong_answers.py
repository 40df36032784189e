"""Answers that no broker should give: each ends in time, with a clear error."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse

from kgroups_spark.cluster.cluster import EARLIEST
from kgroups_spark.cluster.fetch import FetchLimits
from kgroups_spark.cluster.live_log import PieceOpener
from kgroups_spark.cluster.requests import ClusterUnreachable, FetchAnswer, KafkaRefused, fetch_answer
from kgroups_spark.sources.partition_log import FetchPiece, LeaderLost
from tests.sources.fake_cluster import FakeCluster, FakeTime, fake_time
from tests.sources.fetched_logs import LOG, open_log, read
from tests.sources.metadata_answers import Metadata, Start, cluster_at

__all__ = ["fake_time"]

EMPTY = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": []}


def test_a_throttle_time_longer_than_the_timeout_is_refused(
    start: Start, metadata: Metadata, fake_time: FakeTime
) -> None:
    broker = start({"Metadata": lambda request: {**metadata(request), "throttle_time_ms": 2**31 - 1}})
    with cluster_at(broker) as cluster:
        assert cluster.cluster_id == "cluster"
        with pytest.raises(
            KafkaRefused, match=r"throttles this client for 2,147,484 s, longer than default\.api\.timeout\.ms"
        ):
            cluster.brokers()
    assert fake_time.now == 1000


def test_a_throttle_time_may_be_longer_than_our_patience_after_a_loss(start: Start, fake_time: FakeTime) -> None:
    """Patience is for leaders that do not answer; one that throttles us does."""
    broker = start({"Fetch": lambda _: {**EMPTY, "throttle_time_ms": 11_000}})
    with cluster_at(broker) as cluster:
        PieceOpener(cluster, FetchLimits()).lose_patience()
        for _ in range(2):
            assert cluster.fetch("t", 0, 20, max_bytes=99).error == "THROTTLING_QUOTA_EXCEEDED"
    assert fake_time.now == 1011


def test_a_broker_that_throttles_us_for_too_long_has_not_lost_the_other_partitions(
    start: Start, fake_time: FakeTime
) -> None:
    """An audit ends with any other error than LeaderLost."""
    slow = {"throttle_time_ms": 100_000}
    broker = start({"Fetch": lambda _: {**EMPTY, **slow}, "ListOffsets": lambda _: {"topics": [], **slow}})
    piece = FetchPiece("t", 0, None, 0, 15, True, 1, 1.0)
    with cluster_at(broker) as cluster:
        opener = PieceOpener(cluster, FetchLimits())
        with opener(piece) as log, pytest.raises(LeaderLost, match="throttles this client for 100 s"):
            read(log)
        for why in ("not in the broker's answer", "throttles this client for 100 s"):
            with pytest.raises(LeaderLost, match=why):
                opener.end_of(piece)


def test_answers_without_the_partition_are_no_progress(start: Start, fake_time: FakeTime) -> None:
    broker = start({"Fetch": lambda _: dict(EMPTY)})
    with cluster_at(broker) as cluster:
        answer = cluster.fetch("t", 0, 20, max_bytes=99)
    assert answer == FetchAnswer(b"", -1, "UNKNOWN_SERVER_ERROR", "the answer does not have partition 0")
    log = open_log(FakeCluster(LOG, script=[answer] * 1000), 0, 15, timeout_ms=3000)
    with pytest.raises(LeaderLost, match="for 3 s: UNKNOWN_SERVER_ERROR: the answer does not have partition 0"):
        read(log)


def test_a_broker_that_throttles_for_ever_is_given_up(fake_time: FakeTime) -> None:
    def later(cluster: FakeCluster) -> FetchAnswer:
        fake_time.now += 1
        return FetchAnswer(b"", -1, "THROTTLING_QUOTA_EXCEEDED")

    cluster = FakeCluster(LOG, script=[later] * 1000)
    with pytest.raises(LeaderLost, match="THROTTLING_QUOTA_EXCEEDED"):
        read(open_log(cluster, 0, 15, timeout_ms=6000))
    assert 1060 <= fake_time.now < 1070


@pytest.mark.parametrize("records", [None, b""])
def test_a_redirect_to_a_replica_is_not_taken_for_an_empty_log(records: bytes | None) -> None:
    topic = FetchResponse.FetchableTopicResponse
    answer = topic.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=20,
        last_stable_offset=20,
        log_start_offset=0,
        preferred_read_replica=2,
        records=records,
    )
    response = FetchResponse(**{**EMPTY, "responses": [topic(topic="t", topic_id=None, partitions=[answer])]})
    with pytest.raises(KafkaRefused, match=r"partition 0 redirects us to replica 2 .*replica\.selector\.class"):
        fetch_answer(response, 0)


def offsets(**fields: Any) -> dict[str, Any]:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    fields = {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": 7, "leader_epoch": 3, **fields}
    return {"topics": [topic(name="t", partitions=[topic.ListOffsetsPartitionResponse(**fields)])]}


@pytest.mark.parametrize(
    ("fields", "error"),
    [({"partition_index": 5}, "not in the broker's answer"), ({"offset": -7}, "an answer with offset -7")],
)
def test_a_partition_without_an_answer_has_an_error(fields: dict[str, int], error: str, start: Start) -> None:
    broker = start({"ListOffsets": lambda _: offsets(**fields)})
    with cluster_at(broker) as cluster:
        assert cluster.list_offsets([("t", 0)], EARLIEST)["t", 0].error == error


def test_an_answer_without_the_requested_topic_is_refused(start: Start, metadata: Metadata) -> None:
    broker = start({"Metadata": lambda request: {**metadata(request), "topics": []}})
    with cluster_at(broker) as cluster, pytest.raises(KafkaRefused, match="a broker's answer lacks topic t"):
        cluster.topics(["t"])


@pytest.mark.parametrize("host", ["a\0b", "x" * 70 + ".example", "."])
def test_an_invalid_broker_address(host: str, start: Start, metadata: Metadata) -> None:
    def elsewhere(request: Any) -> dict[str, Any]:
        answer = metadata(request)
        answer["brokers"][0].host = host
        return answer

    broker = start({"Metadata": elsewhere})
    with cluster_at(broker, timeout_ms=200) as cluster:
        cluster.topics(["t"])
        assert cluster.fetch("t", 0, 0, max_bytes=9).error == "NETWORK_EXCEPTION"
        with pytest.raises(ClusterUnreachable, match="broker 1 has not answered"):
            cluster.api_versions(1)
