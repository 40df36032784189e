"""A live Kafka cluster: leaders, offsets, stored batches. Sends one request at a time, on connections that stay open. A
retriable failure is retried until time is up; any other is an error with advice."""

from __future__ import annotations

import math
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

from kafka.protocol.admin import DescribeConfigsRequest, ListConfigResourcesRequest

from kgroups_spark.cluster.client_properties import ClientProperties
from kgroups_spark.cluster.connection import (
    LEAST_TIME,
    Address,
    BrokerConnection,
    Disconnected,
    NoAnswerInTime,
    Patience,
    UnknownHost,
    api_versions_request,
    place_of,
)
from kgroups_spark.cluster.requests import (
    MAX_WAIT_MS,
    PASSING,
    UNKNOWN_TOPIC,
    ClusterUnreachable,
    FetchAnswer,
    KafkaRefused,
    OffsetAnswer,
    Throttled,
    TopicMetadata,
    error_name,
    fetch_answer,
    fetch_request,
    list_offsets_request,
    metadata_request,
    newer,
    no_offset,
    no_records,
    offset_answer,
    topic_metadata,
)
from kgroups_spark.errors import KgroupsError

EARLIEST, LATEST = -2, -1

# Kafka's own defaults, in seconds: socket.connection.setup.timeout.max.ms, metadata.max.age.ms.
CONNECTION_TIMEOUT, METADATA_AGE = 30.0, 300.0
# For this time a missing topic is requested again: brokers that have just started know no topics.
UNKNOWN_TOPIC_SECONDS = 3.0
# The share of the time left in which one of several brokers must have taken a connection.
CONNECTING_SHARE = 1 / 3
# Before 2.4 the metadata may have stale leader epochs (KAFKA-9212).
METADATA_WITH_SOUND_EPOCHS = 9
_FROM_LISTENERS = " (the address is from its advertised.listeners)"


class Cluster:
    """A context manager; connects when first used. Not for several threads."""

    def __init__(self, client: ClientProperties, *, timeout_ms: int | None = None) -> None:
        """`timeout_ms`: the time limit of a call with its retries and pauses; None: from the properties."""
        self._client = client
        self._settings = client.settings()
        self.timeout_ms = client.timeout_ms if timeout_ms is None else timeout_ms
        self._request_timeout = self._settings["request_timeout_ms"] / 1000
        self._bootstrap = addresses(client.bootstrap_servers)
        self._asked_at: dict[str, float] = {}  # topic: when its metadata came
        self._nodes: dict[int, Address] = {}
        self._connections: dict[Address, BrokerConnection] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._cluster_id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def cluster_id(self) -> str | None:
        if self._cluster_id is None:
            self._metadata([])
        return self._cluster_id

    def brokers(self) -> dict[int, str]:
        """The brokers that run now, by node id: "host:port"."""
        self._metadata([])
        return {node: place_of(address) for node, address in sorted(self._nodes.items())}

    def topics(
        self, names: Sequence[str] | None = None, *, timeout_ms: float | None = None
    ) -> dict[str, TopicMetadata]:
        """Topics by name, requested now; None: all visible ones. Creates no topics. A missing one has an error."""
        response = self._metadata(names, timeout_ms=timeout_ms)
        has_sound_epochs = response.API_VERSION >= METADATA_WITH_SOUND_EPOCHS
        reported = {topic.name: topic_metadata(topic, has_sound_epochs) for topic in response.topics}
        if missing := sorted(set(names or ()) - reported.keys()):
            raise KafkaRefused(f"a broker's answer lacks topic {missing[0]}, which was requested")
        self._topics |= {name: newer(self._topics.get(name), topic) for name, topic in reported.items()}
        self._asked_at |= dict.fromkeys(reported, time.monotonic())
        return {name: self._topics[name] for name in reported}

    def list_offsets(
        self, partitions: Iterable[tuple[str, int]], at: int, *, timeout_ms: int | None = None
    ) -> dict[tuple[str, int], OffsetAnswer]:
        """The log's start (EARLIEST) or the high watermark (LATEST) of each partition, from its leader, or an error. It
        asks again after a passing failure, until time is up."""
        patience = self._patience(timeout_ms)
        answers: dict[tuple[str, int], OffsetAnswer] = {}
        asked = sorted(set(partitions))
        while asked:
            self.topics(sorted({topic for topic, _ in asked}), timeout_ms=patience.left_ms)
            answers |= self._offsets_now(asked, at, patience)
            passing = PASSING | UNKNOWN_TOPIC if patience.elapsed < UNKNOWN_TOPIC_SECONDS else PASSING
            asked = [each for each in asked if answers[each].error in passing]
            if asked and not patience.pause():
                break
        return answers

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int,
        topic_id: str | None = None,
        last_epoch: int | None = None,
    ) -> FetchAnswer:
        """Batches from the one with `offset` on, also of aborted transactions: one request to the known leader, without
        retries. `topic_id`: for brokers since 3.1. `last_epoch`: of the last batch before `offset`, by which brokers
        since 2.7 detect that their log is another one."""
        known = self._known(topic)
        metadata = known.partitions.get(partition)
        if metadata is None:
            return no_records(known.error or "UNKNOWN_TOPIC_OR_PARTITION")
        if metadata.leader is None or metadata.leader not in self._nodes:
            return no_records("LEADER_NOT_AVAILABLE")
        request = fetch_request(
            topic,
            topic_id,
            partition,
            offset,
            leader_epoch=metadata.leader_epoch,
            last_epoch=last_epoch,
            max_bytes=max_bytes,
        )
        try:
            timeout = min(self._request_timeout, max(self.timeout_ms / 1000, LEAST_TIME))
            connection = self._connection(self._nodes[metadata.leader], timeout)
            response = self._ask(connection, request, timeout + MAX_WAIT_MS / 1000)
        except NoAnswerInTime as err:
            return no_records("REQUEST_TIMED_OUT", str(err))
        except Disconnected as err:
            return no_records("NETWORK_EXCEPTION", str(err))
        return fetch_answer(response, partition)

    def send(self, request: Any, node_id: int | None = None, *, timeout_ms: float | None = None) -> Any:
        """The answer to any request of kafka-python's protocol classes; None: from any broker. A connection that breaks
        is opened again until time is up. Errors inside the answer are the caller's."""
        patience = self._patience(timeout_ms)
        while True:
            failures: list[Disconnected] = []
            candidates = self._candidates(node_id)
            for address in candidates:
                # A broker that hangs leaves time for the others. Once connected, it may be slow.
                share = 1.0 if address == candidates[-1] else CONNECTING_SHARE
                try:
                    connection = self._connection(address, share * patience.left(self._request_timeout))
                    return self._ask(connection, request, patience.left(self._request_timeout))
                except Disconnected as err:
                    failures.append(err)
                if not patience.left_ms:
                    break
            is_hopeless = not self._nodes and all(isinstance(err, UnknownHost) for err in failures)
            if is_hopeless or not patience.pause():
                raise self._gave_up(node_id, failures, patience.elapsed)
            if node_id is not None:
                self._metadata([], timeout_ms=patience.left_ms)

    def api_versions(self, node_id: int) -> Any:
        """That broker's ApiVersionsResponse, with its supported and the cluster's finalized features."""
        return self.send(api_versions_request(), node_id)

    def _patience(self, timeout_ms: float | None) -> Patience:
        return Patience(self.timeout_ms if timeout_ms is None else timeout_ms)

    def _known(self, topic: str) -> TopicMetadata:
        """The last answer, or a new one if that is too old."""
        age = time.monotonic() - self._asked_at.get(topic, -math.inf)
        return self._topics[topic] if age < METADATA_AGE else self.topics([topic])[topic]

    def _metadata(self, names: Sequence[str] | None, *, timeout_ms: float | None = None) -> Any:
        """Metadata of topics, with the brokers, which are kept; None: of all topics."""
        patience = self._patience(timeout_ms)
        while True:
            response = self.send(metadata_request(names), timeout_ms=patience.left_ms)
            # A broker that has just started may know of none, itself included.
            if response.brokers:
                break
            if not patience.pause():
                raise ClusterUnreachable(f"{self._client.bootstrap_servers} report no broker of their cluster")
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self._cluster_id = response.cluster_id
        return response

    def _offsets_now(
        self, partitions: Iterable[tuple[str, int]], at: int, patience: Patience
    ) -> dict[tuple[str, int], OffsetAnswer]:
        """One request to each leader; every partition has an answer."""
        answers: dict[tuple[str, int], OffsetAnswer] = {}
        by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for name, partition in partitions:
            topic = self._topics[name]
            metadata = topic.partitions.get(partition)
            if metadata is None:
                answers[name, partition] = no_offset(topic.error or "UNKNOWN_TOPIC_OR_PARTITION")
            elif metadata.leader is None or metadata.leader not in self._nodes:
                answers[name, partition] = no_offset(metadata.error or "LEADER_NOT_AVAILABLE")
            else:
                by_leader[metadata.leader][name].append(partition)
        for leader, led in by_leader.items():
            answers |= self._offsets_of_leader(leader, led, at, patience.left(self._request_timeout))
        return answers

    def _offsets_of_leader(
        self, leader: int, partitions: dict[str, list[int]], at: int, timeout: float
    ) -> dict[tuple[str, int], OffsetAnswer]:
        asked = [(name, number) for name, numbers in partitions.items() for number in numbers]
        epochs = {
            name: {number: self._topics[name].partitions[number].leader_epoch for number in numbers}
            for name, numbers in partitions.items()
        }
        request = list_offsets_request(epochs, at, timeout_ms=int(1000 * self._request_timeout))
        try:
            connection = self._connection(self._nodes[leader], timeout)
            response = self._ask(connection, request, timeout)
        except Disconnected as err:
            # An address that nobody gave us, that of a listener for other networks, is often unreachable.
            source = "" if self._nodes[leader] in self._bootstrap else _FROM_LISTENERS
            lost = no_offset("NETWORK_EXCEPTION", f"broker {leader}: {err}{source}")
            return dict.fromkeys(asked, lost)
        reported = {
            (topic.name, answer.partition_index): offset_answer(answer)
            for topic in response.topics
            for answer in topic.partitions
        }
        nothing = no_offset("not in the broker's answer")
        return {each: reported.get(each, nothing) for each in asked}

    def _candidates(self, node_id: int | None) -> list[Address]:
        """Where to send: the node's address, if it is known; for any broker, connected ones first."""
        if node_id is not None:
            return [self._nodes[node_id]] if node_id in self._nodes else []
        others = [*self._nodes.values(), *self._bootstrap]
        random.shuffle(others)
        return list(dict.fromkeys([*self._connections, *others]))

    def _connection(self, address: Address, timeout: float) -> BrokerConnection:
        open_one = self._connections.get(address)
        if open_one is not None and not open_one.has_expired:
            return open_one
        self._drop(address)
        try:
            self._connections[address] = BrokerConnection(address, self._settings, min(timeout, CONNECTION_TIMEOUT))
        except KgroupsError as err:
            # Its text has words of the broker and of a token endpoint.
            raise type(err)(self._client.without_secrets(str(err))) from None
        return self._connections[address]

    def _ask(self, connection: BrokerConnection, request: Any, timeout: float) -> Any:
        try:
            # However impatient we are, a broker that throttles us answers afterwards.
            return connection.send(request, timeout, longest_throttle=max(self._client.timeout_ms / 1000, LEAST_TIME))
        except BaseException:
            # After any failure, half an answer may be left on it.
            self._drop(connection.address)
            raise

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def _gave_up(self, node_id: int | None, failures: list[Disconnected], elapsed: float) -> ClusterUnreachable:
        causes = "; ".join(dict.fromkeys(str(err) for err in failures))
        if node_id is None:
            # A name that does not resolve is reported at once.
            time = f" in {elapsed:.0f} s" if elapsed >= 0.5 else ""
            is_refused = not self._nodes and re.search("closed|reset|failed", causes)
            advice = "; is security.protocol that of the port, with TLS and SASL, or without?" if is_refused else ""
            return ClusterUnreachable(f"no broker has answered{time}: {causes}{advice}")
        if not failures:
            return ClusterUnreachable(f"broker {node_id} has not been in the cluster for {elapsed:.0f} s")
        return ClusterUnreachable(f"broker {node_id} has not answered in {elapsed:.0f} s: {causes}{_FROM_LISTENERS}")


def addresses(bootstrap_servers: str) -> list[Address]:
    """host:port pairs of a comma-separated list; an IPv6 address is in brackets."""
    pairs = [each.strip().rpartition(":") for each in bootstrap_servers.split(",") if each.strip()]
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


# Configurations that brokers report: theirs, topics', groups' (DescribeConfigs, KIP-133; of groups KIP-848).


Kind = Literal["topic", "broker", "group"]

# ConfigResource.Type, and two of DescribeConfigsResponse.ConfigSource.
RESOURCE_TYPES: dict[Kind, int] = {"topic": 2, "broker": 4, "group": 32}
DEFAULT_CONFIG, SET_FOR_GROUP = 5, 8
# The first version of ListConfigResources that lists more than client metrics (KIP-1142, 4.1).
LISTS_GROUPS = 1
# How long these optional facts may delay an audit, and the number of resources in one request.
TIMEOUT_MS = 15_000
AT_ONCE = 500


class Configs(NamedTuple):
    """A resource's configuration as a broker reports it: value (None: it is secret) and ConfigSource by name. `error`:
    Kafka's name of the reason for no answer."""

    values: Mapping[str, str | None] = {}
    sources: Mapping[str, int] = {}
    error: str | None = None


def describe_configs(
    cluster: Cluster, kind: Kind, names: Sequence[str], keys: Sequence[str] | None = None, node_id: int | None = None
) -> dict[str, Configs]:
    """The configuration of each resource; `keys`: only these. A broker's own comes from itself alone (`node_id`).
    Raises ClusterUnreachable."""
    reported: dict[str, Configs] = {}
    for start in range(0, len(names), AT_ONCE):
        reported |= _describe(cluster, kind, names[start : start + AT_ONCE], keys, node_id)
    return {name: reported.get(name, Configs(error="UNKNOWN_SERVER_ERROR")) for name in names}


def groups_with_configs(cluster: Cluster) -> Configs | list[str]:
    """The groups with their own configuration; Configs: the reason for no answer. Raises ClusterUnreachable."""
    request = ListConfigResourcesRequest(resource_types=[RESOURCE_TYPES["group"]], min_version=LISTS_GROUPS)
    try:
        answer = cluster.send(request, timeout_ms=TIMEOUT_MS)
    except KafkaRefused as refused:
        return Configs(error=_error_of(refused))
    if error := error_name(answer.error_code):
        return Configs(error=error)
    return sorted(
        each.resource_name for each in answer.config_resources if each.resource_type == RESOURCE_TYPES["group"]
    )


def _describe(
    cluster: Cluster, kind: Kind, names: Sequence[str], keys: Sequence[str] | None, node_id: int | None
) -> Iterator[tuple[str, Configs]]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = None if keys is None else list(keys)
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=RESOURCE_TYPES[kind], resource_name=name, configuration_keys=wanted)
            for name in names
        ]
    )
    try:
        answer = cluster.send(request, node_id, timeout_ms=TIMEOUT_MS)
    except KafkaRefused as refused:
        for name in names:
            yield name, Configs(error=_error_of(refused))
        return
    for reported in answer.results:
        values = {each.name: None if each.is_sensitive else each.value for each in reported.configs}
        sources = {each.name: each.config_source for each in reported.configs}
        yield reported.resource_name, Configs(values, sources, error_name(reported.error_code))


def _error_of(refused: KafkaRefused) -> str:
    """The name of the error because of which no request could be sent."""
    return "THROTTLING_QUOTA_EXCEEDED" if isinstance(refused, Throttled) else "UNSUPPORTED_VERSION"
