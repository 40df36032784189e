"""The cluster over fake brokers: which broker is asked, which requests are retried, which errors are reported."""

from __future__ import annotations

import socket
import uuid
from base64 import b64encode
from contextlib import ExitStack
from copy import copy

import pytest
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata import ApiVersionsResponse

from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import EARLIEST, LATEST, METADATA_AGE, Cluster
from kgroups_spark.cluster.connection import IDLE, LONGEST_PAUSE, BrokerConnection, Disconnected, place_of
from kgroups_spark.cluster.fetch import FetchLimits
from kgroups_spark.cluster.live_log import PieceOpener
from kgroups_spark.cluster.requests import (
    ClusterUnreachable,
    FetchAnswer,
    KafkaRefused,
    OffsetAnswer,
    PartitionMetadata,
    topic_id_text,
)
from kgroups_spark.errors import KgroupsError
from kgroups_spark.sources.partition_log import FetchPiece, LeaderLost
from tests.sources.fake_broker import CLOSE, SILENCE, FakeBroker, Metadata, batches, cluster_at
from tests.sources.fake_broker import offsets as offsets_answer
from tests.sources.fake_cluster import LOG, FakeCluster, fake_time, open_log, read

__all__ = ["fake_time"]

TOPIC_ID = "gAAAAAAAAAAAAAAAAAAABQ"

FETCH, METADATA = 1, 3
NEWER = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=99)
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
EPOCH = FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset(epoch=2, end_offset=17)


@pytest.fixture
def metadata():
    return Metadata()


@pytest.fixture
def start(metadata):
    """Starts a broker of the cluster, and ends it with the test."""
    with ExitStack() as stack:

        def start_broker(answers=None, versions=None):
            broker = stack.enter_context(FakeBroker({"Metadata": metadata, **(answers or {})}, versions))
            metadata.brokers[len(metadata.brokers) + 1] = broker
            return broker

        yield start_broker


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def in_turn(*answers):
    """Gives one answer after the other, the last one for ever."""
    left = list(answers)

    def answer(request):
        step = left.pop(0) if len(left) > 1 else left[0]
        return step(request) if callable(step) else step

    return answer


def offsets(errors=None):
    """Offset 100 + partition at the start, 1000 + partition at the end."""

    def offset(_, wanted):
        number = wanted.partition_index
        return (errors or {}).get(number, 0), number + (100 if wanted.timestamp == EARLIEST else 1000)

    return lambda request: offsets_answer(request, offset)


def fetched(records=b"batches", **more):
    return lambda request: batches(request, 20, records, **more)


class TestMetadata:
    def test_of_a_topic(self, start, metadata):
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

    def test_metadata_without_brokers_is_requested_again(self, start, metadata):
        broker = start()
        broker.answers["Metadata"] = in_turn({"brokers": [], "cluster_id": None, "topics": []}, metadata)
        with cluster_at(broker) as cluster:
            assert cluster.brokers() == {1: broker.address}

    def test_metadata_with_an_older_leader_epoch_is_ignored(self, start, metadata):
        broker = start()
        with cluster_at(broker) as cluster:
            cluster.topics(["t"])
            metadata.leaders = {0: (2, 4)}
            assert cluster.topics(["t"])["t"].partitions[0] == PartitionMetadata(1, 5, None)
            metadata.topic_id = uuid.UUID(int=9)
            assert cluster.topics(["t"])["t"].partitions[0] == PartitionMetadata(2, 4, None)

    def test_leader_epochs_of_old_brokers_are_ignored(self, start):
        broker = start(versions={METADATA: (0, 8)})
        with cluster_at(broker) as cluster:
            topic = cluster.topics(["t"])["t"]
        assert topic.topic_id is None
        assert topic.partitions == {0: PartitionMetadata(1, -1, None)}


class TestOffsets:
    def test_of_each_leader_in_one_request(self, start, metadata):
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
    def test_leadership_is_followed(self, error, start, metadata):
        def moves(request):
            metadata.leaders = {0: (2, 6)}
            return offsets({0: error})(request)

        first, second = start({"ListOffsets": moves}), start({"ListOffsets": offsets()})
        with cluster_at(first) as cluster:
            assert cluster.list_offsets([("t", 0)], LATEST) == {("t", 0): OffsetAnswer(1000, None)}
        assert len(second.named("ListOffsets")) == 1

    def test_lasting_errors_are_reported(self, start, metadata):
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

    def test_an_unreachable_leader_does_not_hide_the_others(self, start, metadata):
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

    def test_a_deleted_topic(self, start, fake_time):
        broker = start({"ListOffsets": offsets()})
        with cluster_at(broker) as cluster:
            answers = cluster.list_offsets([("gone", 0), ("t", 0)], LATEST)
        assert answers["gone", 0] == OffsetAnswer(None, "UNKNOWN_TOPIC_OR_PARTITION")
        assert 1003 <= fake_time.now < 1003 + 1.2 * LONGEST_PAUSE


class TestFetch:
    def test_by_topic_id(self, start):
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
    def test_by_name(self, newest, topic_id, start):
        broker = start({"Fetch": fetched()}, {FETCH: (4, newest)})
        with cluster_at(broker) as cluster:
            assert cluster.fetch("t", 0, 7, max_bytes=99, topic_id=topic_id).records == b"batches"
        (request,) = broker.named("Fetch")
        assert min(newest, 12) == request.API_VERSION
        assert request.topics[0].topic == "t"

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (lambda _: {"error_code": 103, "responses": []}, FetchAnswer(b"", -1, "INCONSISTENT_TOPIC_ID")),
            (
                lambda _: {"responses": []},
                FetchAnswer(b"", -1, "UNKNOWN_SERVER_ERROR", "the answer does not have partition 0"),
            ),
            (fetched(None, diverging_epoch=EPOCH), FetchAnswer(b"", 20, None, diverges_at=17)),
        ],
        ids=["an error of the whole answer", "no partition", "a diverging log"],
    )
    def test_an_answer_without_records(self, answer, expected, start):
        with cluster_at(start({"Fetch": answer})) as cluster:
            assert cluster.fetch("t", 0, 20, max_bytes=99, topic_id=TOPIC_ID) == expected

    def test_a_throttling_broker_is_left_alone_for_the_throttle_time(self, start, fake_time):
        throttled = {"throttle_time_ms": 7000, "responses": []}
        broker = start({"Fetch": in_turn(throttled, fetched())})
        with cluster_at(broker) as cluster:
            assert cluster.fetch("t", 0, 20, max_bytes=99).error == "THROTTLING_QUOTA_EXCEEDED"
            assert fake_time.now == 1000
            assert cluster.fetch("t", 0, 20, max_bytes=99).error is None
            assert fake_time.now == 1007

    def test_a_connection_that_breaks(self, start):
        broker = start({"Fetch": in_turn(CLOSE, fetched())})
        with cluster_at(broker) as cluster:
            answer = cluster.fetch("t", 0, 20, max_bytes=99)
            assert (answer.error, answer.records) == ("NETWORK_EXCEPTION", b"")
            assert answer.detail == f"the broker at {broker.address} closed the connection"
            assert cluster.fetch("t", 0, 20, max_bytes=99).error is None

    def test_an_answer_that_does_not_come_in_time(self, start):
        broker = start({"Fetch": lambda _: SILENCE})
        with cluster_at(broker, request_timeout_ms="20") as cluster:
            answer = cluster.fetch("t", 0, 20, max_bytes=99)
        assert (answer.error, answer.records) == ("REQUEST_TIMED_OUT", b"")
        assert answer.detail == f"the broker at {broker.address} has not answered FetchRequest in time"

    def test_leaders_are_looked_up_again_after_five_minutes(self, start, metadata, fake_time):
        first, second = start({"Fetch": fetched()}), start({"Fetch": fetched()})
        with cluster_at(first) as cluster:
            cluster.fetch("t", 0, 20, max_bytes=99)
            metadata.leaders = {0: (2, 6)}
            cluster.fetch("t", 0, 20, max_bytes=99)
            fake_time.now += METADATA_AGE
            cluster.fetch("t", 0, 20, max_bytes=99)
        assert (len(first.named("Fetch")), len(second.named("Fetch"))) == (2, 1)


class TestConnections:
    def test_they_are_closed(self, start):
        broker = start()
        with cluster_at(broker) as cluster:
            cluster.brokers()
            held = list(cluster._connections.values())  # or else the garbage collector closes them
        assert broker.are_all_closed()
        assert len(held) == 1

    def test_a_broken_one_is_opened_again(self, start, metadata):
        broker = start()
        broker.answers["Metadata"] = in_turn(metadata, CLOSE, CLOSE, metadata)
        with cluster_at(broker) as cluster:
            cluster.brokers()
            assert cluster.brokers() == {1: broker.address}
        assert len(broker.named("Metadata")) == 4

    def test_brokers_that_hang_leave_time_for_the_others(self, start, fake_time, monkeypatch):
        silent = [("first", 9092), ("second", 9092)]

        def connect(address, settings, timeout):
            if address in silent:
                fake_time.now += timeout
                raise Disconnected("does not answer")
            return BrokerConnection(address, settings, timeout)

        monkeypatch.setattr("kgroups_spark.cluster.cluster.BrokerConnection", connect)
        monkeypatch.setattr("kgroups_spark.cluster.cluster.random.shuffle", lambda _: None)
        servers = ",".join([*map(place_of, silent), start().address])
        with Cluster(client_properties(servers, {}), timeout_ms=20_000) as cluster:
            assert cluster.cluster_id == "cluster"

    def test_an_idle_one_is_opened_again(self, start, fake_time):
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

    def test_nothing_listens(self):
        port = free_port()
        client = client_properties(f"127.0.0.1:{port}", {})
        with (
            pytest.raises(ClusterUnreachable, match=rf"no broker has answered: nothing listens at 127.0.0.1:{port}$"),
            Cluster(client, timeout_ms=100) as cluster,
        ):
            cluster.brokers()

    def test_a_name_that_does_not_resolve_is_reported_at_once(self, fake_time):
        with (
            pytest.raises(ClusterUnreachable, match=r"^no broker has answered: the name no\.invalid does not resolve"),
            Cluster(client_properties("no.invalid:9092", {})) as cluster,
        ):
            cluster.brokers()
        assert fake_time.slept == []

    @pytest.mark.parametrize("first", ["no IPv6", "drops packets"])
    def test_a_name_with_an_address_that_does_not_work(self, first, start, monkeypatch):
        """The next address of the name is tried, with time enough."""
        broker, waited = start(), list[float | None]()
        family, address = (99, "::1") if first == "no IPv6" else (socket.AF_INET, "192.0.2.1")
        other = (family, socket.SOCK_STREAM, 0, "", (address, broker.port))
        found = [other, *socket.getaddrinfo("127.0.0.1", broker.port, type=socket.SOCK_STREAM)]
        connect = socket.socket.connect

        def connected(self, place):
            waited.append(self.gettimeout())
            if place[0] == address:
                raise TimeoutError
            connect(self, place)

        monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr("socket.socket.connect", connected)
        with cluster_at(broker, timeout_ms=60_000) as cluster:
            assert cluster.brokers() == {1: broker.address}
        assert [round(each or 0) for each in waited] == [30] * (1 if first == "no IPv6" else 2)

    def test_a_listed_broker_that_is_gone(self, start):
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

    def test_a_broker_at_a_new_address(self, start, metadata):
        first, old = start(), start()
        with cluster_at(first) as cluster:
            cluster.brokers()
            old.__exit__()
            new = start()
            metadata.brokers = {1: first, 2: new}
            assert cluster.api_versions(2).error_code == 0
        assert new.connections == 1

    def test_a_connection_with_a_half_read_answer_is_not_used_again(self, start, monkeypatch):
        broker = start()
        with cluster_at(broker) as cluster:
            cluster.brokers()
            with monkeypatch.context() as patch:
                patch.setattr(BrokerConnection, "_receive", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    cluster.brokers()
            assert cluster.brokers() == {1: broker.address}
        assert broker.connections == 2

    def test_an_answer_to_another_request(self, start, metadata):
        broker = start()
        broker.answers["Metadata"] = in_turn(lambda r: {**metadata(r), "correlation_id": 77}, metadata)
        with cluster_at(broker) as cluster:
            assert cluster.brokers() == {1: broker.address}
        assert len(broker.named("Metadata")) == 2


class TestProtocol:
    def test_versions_of_an_older_broker(self, start, metadata):
        """It answers a version that it does not know in version 0, with its own versions (KIP-511)."""
        one = ApiVersionsResponse.ApiVersion
        older = {"error_code": 35, "as_version": 0, "api_keys": [one(api_key=18, min_version=0, max_version=2)]}
        asked: list[int] = []

        def answer(request):
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
        self, api_versions, versions, security, error, said, start
    ):
        broker = start({} if api_versions is None else {"ApiVersions": lambda _: copy(api_versions)}, versions)
        broker.versions = {key: known for key, known in broker.versions.items() if known}
        with (
            pytest.raises(error, match=said.format(broker.address)),
            cluster_at(broker, timeout_ms=1_000, security_protocol=security) as cluster,
        ):
            cluster.brokers()

    def test_a_port_with_sasl(self, start):
        broker = start(
            {
                "Metadata": lambda _: CLOSE,
                "SaslHandshake": lambda _: {"error_code": 33, "mechanisms": ["PLAIN", "SCRAM-SHA-256"]},
            }
        )
        with (
            pytest.raises(
                KgroupsError,
                match=r"requires SASL on this port: set security.protocol to SASL_PLAINTEXT and sasl.mechanism to "
                "one of PLAIN, SCRAM-SHA-256",
            ),
            cluster_at(broker) as cluster,
        ):
            cluster.brokers()

    def test_a_new_connection_that_breaks_is_no_sign_of_sasl(self, start, metadata):
        broker = start({"SaslHandshake": lambda _: {"error_code": 34, "mechanisms": []}})
        broker.answers["Metadata"] = in_turn(CLOSE, metadata)
        with cluster_at(broker) as cluster:
            assert cluster.brokers() == {1: broker.address}


class TestSasl:
    PASSWORD = "open/sesame+1"

    def cluster(self, broker, mechanism="PLAIN", module="plain.PlainLoginModule"):
        jaas = f'org.apache.kafka.common.security.{module} required username="ali" password="{self.PASSWORD}";'
        names = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_jaas_config": jaas}
        return cluster_at(broker, **names)

    @staticmethod
    def accepted(**more):
        return {
            "SaslHandshake": lambda _: {"error_code": 0, "mechanisms": ["PLAIN"]},
            "SaslAuthenticate": lambda _: {"error_code": 0, "error_message": None, "auth_bytes": b"", **more},
        }

    def test_we_send_our_credentials(self, start):
        broker = start(self.accepted())
        with self.cluster(broker) as cluster:
            cluster.brokers()
        assert broker.named("SaslHandshake")[0].mechanism == "PLAIN"
        assert broker.named("SaslAuthenticate")[0].auth_bytes == f"ali\0ali\0{self.PASSWORD}".encode()

    def test_a_wrong_password_is_tried_once_and_never_shown(self, start):
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

    def test_no_proof_is_sent_to_a_broker_that_asks_for_one_iteration(self, start):
        def first(request):
            nonce = request.auth_bytes.rpartition(b"r=")[2]
            return {"error_code": 0, "auth_bytes": b"r=" + nonce + b"x,s=" + b64encode(b"salt") + b",i=1"}

        broker = start({**self.accepted(), "SaslAuthenticate": first})
        with (
            pytest.raises(KgroupsError, match="too weak a SCRAM-SHA-256 handshake: it requests 1 iterations"),
            self.cluster(broker, "SCRAM-SHA-256", "scram.ScramLoginModule") as cluster,
        ):
            cluster.brokers()
        assert len(broker.named("SaslAuthenticate")) == 1

    def test_a_session_is_replaced_before_it_ends(self, start, fake_time):
        broker = start(self.accepted(session_lifetime_ms=10_000))
        with self.cluster(broker) as cluster:
            cluster.brokers()
            fake_time.now += 8
            cluster.brokers()
            assert broker.connections == 1
            fake_time.now += 1
            cluster.brokers()
            assert broker.connections == 2


# Answers that no broker should give: each ends in time, with a clear error.
EMPTY = {"responses": []}


def test_a_throttle_time_longer_than_the_timeout_is_refused(start, metadata, fake_time):
    broker = start({"Metadata": lambda request: {**metadata(request), "throttle_time_ms": 2**31 - 1}})
    with cluster_at(broker) as cluster:
        assert cluster.cluster_id == "cluster"
        with pytest.raises(
            KafkaRefused, match=r"throttles this client for 2,147,484 s, longer than default\.api\.timeout\.ms"
        ):
            cluster.brokers()
    assert fake_time.now == 1000


def test_a_throttle_time_may_be_longer_than_our_patience_after_a_loss(start, fake_time):
    """Patience is for leaders that do not answer; one that throttles us does."""
    broker = start({"Fetch": lambda _: {**EMPTY, "throttle_time_ms": 11_000}})
    with cluster_at(broker) as cluster:
        PieceOpener(cluster, FetchLimits()).lose_patience()
        for _ in range(2):
            assert cluster.fetch("t", 0, 20, max_bytes=99).error == "THROTTLING_QUOTA_EXCEEDED"
    assert fake_time.now == 1011


def test_a_broker_that_throttles_us_for_too_long_has_not_lost_the_other_partitions(start, fake_time):
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


def test_a_broker_that_throttles_for_ever_is_given_up(fake_time):
    def later(cluster):
        fake_time.now += 1
        return FetchAnswer(b"", -1, "THROTTLING_QUOTA_EXCEEDED")

    cluster = FakeCluster(LOG, script=[later] * 1000)
    with pytest.raises(LeaderLost, match="THROTTLING_QUOTA_EXCEEDED"):
        read(open_log(cluster, 0, 15, timeout_ms=6000))
    assert 1060 <= fake_time.now < 1070


@pytest.mark.parametrize("records", [None, b""])
def test_a_redirect_to_a_replica_is_not_taken_for_an_empty_log(records, start):
    broker = start({"Fetch": fetched(records, preferred_read_replica=2)})
    with (
        pytest.raises(KafkaRefused, match=r"partition 0 redirects us to replica 2 .*replica\.selector\.class"),
        cluster_at(broker) as cluster,
    ):
        cluster.fetch("t", 0, 20, max_bytes=99)


def test_an_offset_that_no_log_has_is_an_error(start):
    broker = start({"ListOffsets": lambda request: offsets_answer(request, lambda *_: (0, -7))})
    with cluster_at(broker) as cluster:
        assert cluster.list_offsets([("t", 0)], EARLIEST)["t", 0].error == "an answer with offset -7"


def test_an_answer_without_the_requested_topic_is_refused(start, metadata):
    broker = start({"Metadata": lambda request: {**metadata(request), "topics": []}})
    with cluster_at(broker) as cluster, pytest.raises(KafkaRefused, match="a broker's answer lacks topic t"):
        cluster.topics(["t"])


@pytest.mark.parametrize("host", ["a\0b", "x" * 70 + ".example", "."])
def test_an_invalid_broker_address(host, start, metadata):
    def elsewhere(request):
        answer = metadata(request)
        answer["brokers"][0].host = host
        return answer

    broker = start({"Metadata": elsewhere})
    with cluster_at(broker, timeout_ms=200) as cluster:
        cluster.topics(["t"])
        assert cluster.fetch("t", 0, 0, max_bytes=9).error == "NETWORK_EXCEPTION"
        with pytest.raises(ClusterUnreachable, match="broker 1 has not answered"):
            cluster.api_versions(1)
