"""The cluster over fake brokers: which broker is asked, which requests are retried, which errors are reported."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse

from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import EARLIEST, LATEST, METADATA_AGE, Cluster
from kgroups_spark.cluster.connection import IDLE, LONGEST_PAUSE, Address, BrokerConnection, Disconnected, place_of
from kgroups_spark.cluster.requests import (
    ClusterUnreachable,
    FetchAnswer,
    KafkaRefused,
    OffsetAnswer,
    PartitionMetadata,
    topic_id_text,
)
from kgroups_spark.errors import KgroupsError
from tests.sources.fake_broker import CLOSE, SILENCE, FakeBroker
from tests.sources.fake_cluster import FakeTime, fake_time
from tests.sources.metadata_answers import Metadata, Start, cluster_at

__all__ = ["fake_time"]

TOPIC_ID = "gAAAAAAAAAAAAAAAAAAABQ"

FETCH, METADATA = 1, 3
NEWER = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=99)
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def in_turn(*answers: Any) -> Callable[[Any], Any]:
    """Gives one answer after the other, the last one for ever."""
    left = list(answers)

    def answer(request: Any) -> Any:
        step = left.pop(0) if len(left) > 1 else left[0]
        return step(request) if callable(step) else step

    return answer


def offsets(errors: dict[int, int] | None = None) -> Callable[[Any], Any]:
    """Offset 100 + partition at the start, 1000 + partition at the end."""

    def answer(request: Any) -> dict[str, Any]:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        one = topic.ListOffsetsPartitionResponse
        return {
            "topics": [
                topic(
                    name=each.name,
                    partitions=[
                        one(
                            partition_index=wanted.partition_index,
                            error_code=(errors or {}).get(wanted.partition_index, 0),
                            timestamp=-1,
                            offset=(100 if wanted.timestamp == EARLIEST else 1000) + wanted.partition_index,
                            leader_epoch=3,
                        )
                        for wanted in each.partitions
                    ],
                )
                for each in request.topics
            ]
        }

    return answer


def fetched(error: int = 0, records: bytes | None = b"batches", **more: Any) -> Callable[[Any], Any]:
    def answer(request: Any) -> dict[str, Any]:
        topic = FetchResponse.FetchableTopicResponse
        one = topic.PartitionData(
            partition_index=request.topics[0].partitions[0].partition,
            error_code=error,
            high_watermark=20,
            last_stable_offset=10,
            log_start_offset=4,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=records,
            **more,
        )
        named = topic(topic=request.topics[0].topic, topic_id=request.topics[0].topic_id, partitions=[one])
        return {"error_code": 0, "session_id": 0, "responses": [named]}

    return answer


class TestMetadata:
    def test_of_a_topic(self, start: Start, metadata: Metadata) -> None:
        metadata.leaders = {1: (-1, 7), 0: (1, 5)}
        broker = start()
        with cluster_at(broker) as cluster:
            topics = cluster.topics(["t", "no"])
            assert cluster.cluster_id == "cluster"
            assert cluster.brokers() == {1: broker.address}
        assert topics["t"].topic_id == TOPIC_ID
        assert topics["t"].partitions == {
            0: PartitionMetadata(1, 5, None),
            1: PartitionMetadata(None, 7, "LEADER_NOT_AVAILABLE"),
        }
        assert (topics["no"].error, topics["no"].partitions) == ("UNKNOWN_TOPIC_OR_PARTITION", {})
        assert not any(request.allow_auto_topic_creation for request in broker.requests)

    def test_metadata_without_brokers_is_requested_again(self, start: Start, metadata: Metadata) -> None:
        broker = start()
        broker.answers["Metadata"] = in_turn({"brokers": [], "cluster_id": None, "topics": []}, metadata)
        with cluster_at(broker) as cluster:
            assert cluster.brokers() == {1: broker.address}

    def test_metadata_with_an_older_leader_epoch_is_ignored(self, start: Start, metadata: Metadata) -> None:
        broker = start()
        with cluster_at(broker) as cluster:
            cluster.topics(["t"])
            metadata.leaders = {0: (2, 4)}
            assert cluster.topics(["t"])["t"].partitions[0] == PartitionMetadata(1, 5, None)
            metadata.topic_id = uuid.UUID(int=9)
            assert cluster.topics(["t"])["t"].partitions[0] == PartitionMetadata(2, 4, None)

    def test_leader_epochs_of_old_brokers_are_ignored(self, start: Start) -> None:
        broker = start(versions={METADATA: (0, 8)})
        with cluster_at(broker) as cluster:
            topic = cluster.topics(["t"])["t"]
        assert topic.topic_id is None
        assert topic.partitions == {0: PartitionMetadata(1, -1, None)}


class TestOffsets:
    def test_of_each_leader_in_one_request(self, start: Start, metadata: Metadata) -> None:
        metadata.leaders = {0: (1, 5), 1: (2, 6), 2: (1, 7)}
        first, _ = start({"ListOffsets": offsets()}), start({"ListOffsets": offsets()})
        with cluster_at(first) as cluster:
            ends = cluster.list_offsets([("t", 2), ("t", 0), ("t", 1)], LATEST)
            starts = cluster.list_offsets([("t", 1)], EARLIEST)
        assert ends == {("t", n): OffsetAnswer(1000 + n, None) for n in range(3)}
        assert starts == {("t", 1): OffsetAnswer(101, None)}
        (request,) = first.named("ListOffsets")
        asked = request.topics[0].partitions
        assert [(each.partition_index, each.current_leader_epoch, each.timestamp) for each in asked] == [
            (0, 5, -1),
            (2, 7, -1),
        ]
        assert request.isolation_level == 0

    @pytest.mark.parametrize("error", [5, 6, 7, 9, 56, 72, 74, 75, 78])
    def test_leadership_is_followed(self, error: int, start: Start, metadata: Metadata) -> None:
        def moves(request: Any) -> Any:
            metadata.leaders = {0: (2, 6)}
            return offsets({0: error})(request)

        first, second = start({"ListOffsets": moves}), start({"ListOffsets": offsets()})
        with cluster_at(first) as cluster:
            assert cluster.list_offsets([("t", 0)], LATEST) == {("t", 0): OffsetAnswer(1000, None)}
        assert len(second.named("ListOffsets")) == 1

    def test_lasting_errors_are_reported(self, start: Start, metadata: Metadata) -> None:
        metadata.leaders = {0: (1, 5), 1: (-1, 5), 2: (1, 5), 3: (9, 5)}
        broker = start({"ListOffsets": offsets({0: 29, 2: 6})})
        with cluster_at(broker) as cluster:
            wanted = [("t", number) for number in range(5)]
            answers = cluster.list_offsets(wanted, LATEST, timeout_ms=50)
        assert [answers[place].error for place in wanted] == [
            "TOPIC_AUTHORIZATION_FAILED",
            "LEADER_NOT_AVAILABLE",
            "NOT_LEADER_OR_FOLLOWER",
            "LEADER_NOT_AVAILABLE",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        assert {answer.offset for answer in answers.values()} == {None}

    def test_an_unreachable_leader_does_not_hide_the_others(self, start: Start, metadata: Metadata) -> None:
        metadata.leaders = {0: (1, 5), 1: (2, 5)}
        broker, gone = start({"ListOffsets": offsets()}), start({"ListOffsets": lambda _: CLOSE})
        with cluster_at(broker) as cluster:
            answers = cluster.list_offsets([("t", 0), ("t", 1)], LATEST, timeout_ms=50)
        assert answers["t", 0].offset == 1000
        assert answers["t", 1][:2] == (None, "NETWORK_EXCEPTION")
        assert answers["t", 1].detail == (
            f"broker 2: the broker at {gone.address} closed the connection (the address is from its "
            "advertised.listeners)"
        )
        assert gone.connections > 1

    def test_a_deleted_topic(self, start: Start, fake_time: FakeTime) -> None:
        broker = start({"ListOffsets": offsets()})
        with cluster_at(broker) as cluster:
            answers = cluster.list_offsets([("gone", 0), ("t", 0)], LATEST)
        assert answers["gone", 0] == OffsetAnswer(None, "UNKNOWN_TOPIC_OR_PARTITION")
        assert 1003 <= fake_time.now < 1003 + 1.2 * LONGEST_PAUSE


class TestFetch:
    def test_by_topic_id(self, start: Start) -> None:
        broker = start({"Fetch": fetched()})
        with cluster_at(broker) as cluster:
            answer = cluster.fetch("t", 0, 7, max_bytes=99, topic_id=TOPIC_ID, last_epoch=4)
        assert answer == FetchAnswer(b"batches", 20, None)
        (request,) = broker.named("Fetch")
        assert request.API_VERSION >= 13
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level) == (500, 1, 99, 0)
        assert (request.session_id, request.session_epoch, request.rack_id) == (0, -1, "")
        assert topic_id_text(request.topics[0].topic_id) == TOPIC_ID
        (wanted,) = request.topics[0].partitions
        assert (wanted.partition, wanted.fetch_offset, wanted.partition_max_bytes) == (0, 7, 99)
        assert (wanted.current_leader_epoch, wanted.last_fetched_epoch) == (5, 4)

    @pytest.mark.parametrize(("newest", "topic_id"), [(12, TOPIC_ID), (4, TOPIC_ID), (18, None)])
    def test_by_name(self, newest: int, topic_id: str | None, start: Start) -> None:
        broker = start({"Fetch": fetched()}, {FETCH: (4, newest)})
        with cluster_at(broker) as cluster:
            assert cluster.fetch("t", 0, 7, max_bytes=99, topic_id=topic_id).records == b"batches"
        (request,) = broker.named("Fetch")
        assert min(newest, 12) == request.API_VERSION
        assert request.topics[0].topic == "t"

    def test_an_error_of_the_whole_answer(self, start: Start) -> None:
        broker = start({"Fetch": lambda _: {"error_code": 103, "responses": []}})
        with cluster_at(broker) as cluster:
            assert cluster.fetch("t", 0, 20, max_bytes=99).error == "INCONSISTENT_TOPIC_ID"

    def test_a_diverging_log(self, start: Start) -> None:
        epoch = FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset(epoch=2, end_offset=17)
        broker = start({"Fetch": fetched(records=None, diverging_epoch=epoch)})
        with cluster_at(broker) as cluster:
            answer = cluster.fetch("t", 0, 20, max_bytes=99, topic_id=TOPIC_ID)
        assert answer == FetchAnswer(b"", 20, None, diverges_at=17)

    def test_a_throttling_broker_is_left_alone_for_the_throttle_time(self, start: Start, fake_time: FakeTime) -> None:
        throttled = {"throttle_time_ms": 7000, "error_code": 0, "session_id": 0, "responses": []}
        broker = start({"Fetch": in_turn(throttled, fetched())})
        with cluster_at(broker) as cluster:
            assert cluster.fetch("t", 0, 20, max_bytes=99).error == "THROTTLING_QUOTA_EXCEEDED"
            assert fake_time.now == 1000
            assert cluster.fetch("t", 0, 20, max_bytes=99).error is None
            assert fake_time.now == 1007

    def test_a_connection_that_breaks(self, start: Start) -> None:
        broker = start({"Fetch": in_turn(CLOSE, fetched())})
        with cluster_at(broker) as cluster:
            answer = cluster.fetch("t", 0, 20, max_bytes=99)
            assert (answer.error, answer.records) == ("NETWORK_EXCEPTION", b"")
            assert answer.detail == f"the broker at {broker.address} closed the connection"
            assert cluster.fetch("t", 0, 20, max_bytes=99).error is None

    def test_an_answer_that_does_not_come_in_time(self, start: Start) -> None:
        broker = start({"Fetch": lambda _: SILENCE})
        with cluster_at(broker, request_timeout_ms="20") as cluster:
            answer = cluster.fetch("t", 0, 20, max_bytes=99)
        assert (answer.error, answer.records) == ("REQUEST_TIMED_OUT", b"")
        assert answer.detail == f"the broker at {broker.address} has not answered FetchRequest in time"

    def test_leaders_are_looked_up_again_after_five_minutes(
        self, start: Start, metadata: Metadata, fake_time: FakeTime
    ) -> None:
        first, second = start({"Fetch": fetched()}), start({"Fetch": fetched()})
        with cluster_at(first) as cluster:
            cluster.fetch("t", 0, 20, max_bytes=99)
            metadata.leaders = {0: (2, 6)}
            cluster.fetch("t", 0, 20, max_bytes=99)
            fake_time.now += METADATA_AGE
            cluster.fetch("t", 0, 20, max_bytes=99)
        assert (len(first.named("Fetch")), len(second.named("Fetch"))) == (2, 1)


class TestConnections:
    def test_they_are_closed(self, start: Start) -> None:
        broker = start()
        with cluster_at(broker) as cluster:
            cluster.brokers()
            held = list(cluster._connections.values())  # or else the garbage collector closes them
        assert broker.are_all_closed()
        assert len(held) == 1

    def test_a_broken_one_is_opened_again(self, start: Start, metadata: Metadata) -> None:
        broker = start()
        broker.answers["Metadata"] = in_turn(metadata, CLOSE, CLOSE, metadata)
        with cluster_at(broker) as cluster:
            cluster.brokers()
            assert cluster.brokers() == {1: broker.address}
        assert len(broker.named("Metadata")) == 4

    def test_brokers_that_hang_leave_time_for_the_others(
        self, start: Start, fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        silent = [("first", 9092), ("second", 9092)]

        def connect(address: Address, settings: Any, timeout: float) -> BrokerConnection:
            if address in silent:
                fake_time.now += timeout
                raise Disconnected("does not answer")
            return BrokerConnection(address, settings, timeout)

        monkeypatch.setattr("kgroups_spark.cluster.cluster.BrokerConnection", connect)
        monkeypatch.setattr("kgroups_spark.cluster.cluster.random.shuffle", lambda _: None)
        servers = ",".join([*map(place_of, silent), start().address])
        with Cluster(client_properties(servers, {}), timeout_ms=20_000) as cluster:
            assert cluster.cluster_id == "cluster"

    def test_an_idle_one_is_opened_again(self, start: Start, fake_time: FakeTime) -> None:
        broker = start()
        with cluster_at(broker) as cluster:
            cluster.brokers()
            fake_time.now += IDLE - 1
            cluster.brokers()
            fake_time.now += IDLE - 1
            cluster.brokers()
            assert broker.connections == 1
            fake_time.now += IDLE
            cluster.brokers()
            assert broker.connections == 2

    def test_nothing_listens(self) -> None:
        port = free_port()
        client = client_properties(f"127.0.0.1:{port}", {})
        with (
            pytest.raises(ClusterUnreachable, match=rf"no broker has answered: nothing listens at 127.0.0.1:{port}$"),
            Cluster(client, timeout_ms=100) as cluster,
        ):
            cluster.brokers()

    def test_a_name_that_does_not_resolve_is_reported_at_once(self, fake_time: FakeTime) -> None:
        with (
            pytest.raises(ClusterUnreachable, match=r"^no broker has answered: the name no\.invalid does not resolve"),
            Cluster(client_properties("no.invalid:9092", {})) as cluster,
        ):
            cluster.brokers()
        assert fake_time.slept == []

    @pytest.mark.parametrize("first", ["no IPv6", "drops packets"])
    def test_a_name_with_an_address_that_does_not_work(
        self, first: str, start: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next address of the name is tried."""
        broker, waited = start(), list[float | None]()
        family, address = (99, "::1") if first == "no IPv6" else (socket.AF_INET, "192.0.2.1")
        other = (family, socket.SOCK_STREAM, 0, "", (address, broker.port))
        found = [other, *socket.getaddrinfo("127.0.0.1", broker.port, type=socket.SOCK_STREAM)]
        connect = socket.socket.connect

        def connected(self: socket.socket, place: tuple[str, int]) -> None:
            waited.append(self.gettimeout())
            if place[0] == address:
                raise TimeoutError
            connect(self, place)

        monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr("socket.socket.connect", connected)
        with cluster_at(broker, timeout_ms=60_000) as cluster:
            assert cluster.brokers() == {1: broker.address}
        assert [round(each or 0) for each in waited] == [30] * (1 if first == "no IPv6" else 2)

    def test_a_listed_broker_that_is_gone(self, start: Start) -> None:
        first, gone = start(), start()
        with cluster_at(first, timeout_ms=50) as cluster:
            cluster.brokers()
            gone.__exit__()
            with pytest.raises(
                ClusterUnreachable,
                match=rf"broker 2 has not answered in 0 s: nothing listens at {gone.address} .*advertised.listeners",
            ):
                cluster.api_versions(2)
            with pytest.raises(ClusterUnreachable, match="broker 7 has not been in the cluster for 0 s"):
                cluster.api_versions(7)

    def test_a_broker_at_a_new_address(self, start: Start, metadata: Metadata) -> None:
        first, old = start(), start()
        with cluster_at(first) as cluster:
            cluster.brokers()
            old.__exit__()
            new = start()
            metadata.brokers = {1: first, 2: new}
            assert cluster.api_versions(2).error_code == 0
        assert new.connections == 1

    def test_a_connection_with_a_half_read_answer_is_not_used_again(
        self, start: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker = start()
        with cluster_at(broker) as cluster:
            cluster.brokers()
            with monkeypatch.context() as patch:
                patch.setattr(BrokerConnection, "_receive", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    cluster.brokers()
            assert cluster.brokers() == {1: broker.address}
        assert broker.connections == 2

    def test_an_answer_to_another_request(self, start: Start, metadata: Metadata) -> None:
        broker = start()
        broker.answers["Metadata"] = in_turn(lambda r: {**metadata(r), "correlation_id": 77}, metadata)
        with cluster_at(broker) as cluster:
            assert cluster.brokers() == {1: broker.address}
        assert len(broker.named("Metadata")) == 2


class TestProtocol:
    def test_versions_of_an_older_broker(self, start: Start, metadata: Metadata) -> None:
        """It answers a version that it does not know in version 0, with its own versions (KIP-511)."""
        one = ApiVersionsResponse.ApiVersion
        older = {"error_code": 35, "as_version": 0, "api_keys": [one(api_key=18, min_version=0, max_version=2)]}
        asked: list[int] = []

        def answer(request: Any) -> Any:
            asked.append(request.API_VERSION)
            return dict(older) if request.API_VERSION > 2 else broker._api_versions(request)

        broker = start({"ApiVersions": answer})
        with cluster_at(broker) as cluster:
            assert cluster.brokers() == {1: broker.address}
        assert asked[0] > 2
        assert asked[1:] == [2]

    @pytest.mark.parametrize(
        ("api_versions", "versions", "security", "error", "said"),
        [
            (
                {"error_code": 35, "as_version": 0, "api_keys": [NEWER]},
                {},
                "PLAINTEXT",
                KafkaRefused,
                "answers ApiVersions with UNSUPPORTED_VERSION",
            ),
            (None, {METADATA: (0, 3)}, "PLAINTEXT", KafkaRefused, "is too old or too new for us: .*MetadataRequest"),
            (None, {METADATA: None}, "PLAINTEXT", KafkaRefused, "MetadataRequest: is it a controller's port"),
            (
                b"\x15\x03\x03\0\2\2P",
                {},
                "PLAINTEXT",
                KgroupsError,
                "{} uses TLS: set security.protocol to SSL or",
            ),
            (None, {}, "SSL", ClusterUnreachable, "TLS handshake with {} failed: .*; is security.protocol"),
            (HTTP, {}, "SSL", ClusterUnreachable, "the TLS handshake with {} failed"),
            (HTTP, {}, "PLAINTEXT", KgroupsError, "{} does not use Kafka's protocol: it answered b'HTTP'"),
            (b"\0\0\0\5\0\0\0\1\0", {}, "PLAINTEXT", KgroupsError, "sent an invalid answer to ApiVersionsRequest"),
        ],
    )
    def test_a_port_that_is_not_for_us_is_refused_with_the_reason(
        self,
        api_versions: Any,
        versions: dict[int, Any],
        security: str,
        error: type[Exception],
        said: str,
        start: Start,
    ) -> None:
        broker = start({} if api_versions is None else {"ApiVersions": lambda _: copy(api_versions)}, versions)
        broker.versions = {key: known for key, known in broker.versions.items() if known}
        with (
            pytest.raises(error, match=said.format(broker.address)),
            cluster_at(broker, timeout_ms=1_000, security_protocol=security) as cluster,
        ):
            cluster.brokers()

    def test_a_port_with_sasl_closes_the_connection(self, start: Start) -> None:
        broker = start({"Metadata": lambda _: CLOSE})
        with (
            pytest.raises(ClusterUnreachable, match="closed the connection; is security"),
            cluster_at(broker, timeout_ms=500) as cluster,
        ):
            cluster.brokers()


class TestSasl:
    PASSWORD = "open/sesame+1"

    def cluster(self, broker: FakeBroker, **properties: str) -> Cluster:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        jaas = f'{module} required username="ali" password="{self.PASSWORD}";'
        names = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_jaas_config": jaas,
            **properties,
        }
        return cluster_at(broker, **names)

    @staticmethod
    def accepted(**more: Any) -> dict[str, Callable[[Any], Any]]:
        return {
            "SaslHandshake": lambda _: {"error_code": 0, "mechanisms": ["PLAIN"]},
            "SaslAuthenticate": lambda _: {"error_code": 0, "error_message": None, "auth_bytes": b"", **more},
        }

    def test_we_send_our_credentials(self, start: Start) -> None:
        broker = start(self.accepted())
        with self.cluster(broker) as cluster:
            cluster.brokers()
        assert broker.named("SaslHandshake")[0].mechanism == "PLAIN"
        assert broker.named("SaslAuthenticate")[0].auth_bytes == f"ali\0ali\0{self.PASSWORD}".encode()

    def test_a_wrong_password_is_tried_once_and_never_shown(self, start: Start) -> None:
        said = f"Invalid password {self.PASSWORD} of ali"
        broker = start(self.accepted(error_code=58, error_message=said))
        with self.cluster(broker) as cluster, pytest.raises(KgroupsError) as raised:
            cluster.brokers()
        assert "rejected our PLAIN credentials: SASL_AUTHENTICATION_FAILED: Invalid password [hidden] of ali" in str(
            raised.value
        )
        assert raised.value.__suppress_context__
        assert len(broker.named("SaslAuthenticate")) == 1
        assert broker.are_all_closed()

    def test_a_session_is_replaced_before_it_ends(self, start: Start, fake_time: FakeTime) -> None:
        broker = start(self.accepted(session_lifetime_ms=10_000))
        with self.cluster(broker) as cluster:
            cluster.brokers()
            fake_time.now += 8
            cluster.brokers()
            assert broker.connections == 1
            fake_time.now += 1
            cluster.brokers()
            assert broker.connections == 2
