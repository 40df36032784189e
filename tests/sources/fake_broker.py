"""A fake broker's port: answers requests by a table, on loopback, in a thread."""

from __future__ import annotations

import io
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from kafka.protocol.admin import DescribeConfigsRequest, ListConfigResourcesRequest
from kafka.protocol.api_header import RequestHeader, ResponseClassRegistry
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster

REQUESTS = {
    each.API_KEY: each
    for each in (
        ApiVersionsRequest,
        DescribeConfigsRequest,
        FetchRequest,
        ListConfigResourcesRequest,
        ListOffsetsRequest,
        MetadataRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
    )
}
NEWEST = {name: (0, kind.max_version) for name, kind in REQUESTS.items()}
LARGEST_REQUEST = 100 << 20  # socket.request.max.bytes
CLOSE = object()
SILENCE = object()

# The fields of the response, with `as_version` and `correlation_id` if they must differ; CLOSE, SILENCE, or bytes.
Answer = Any


class FakeBroker:
    """A listener without SASL, unless configured otherwise.

    `answers`: by the name of the request without `Request`, a function of it that gives an Answer. `versions`: what it
    says it knows, by API key. `requests`: all that came, except ApiVersions.
    """

    def __init__(
        self, answers: dict[str, Callable[[Any], Answer]], versions: dict[int, tuple[int, int]] | None = None
    ) -> None:
        self.answers = {"SaslHandshake": lambda _: {"error_code": 34, "mechanisms": []}, **answers}
        self.versions = NEWEST | (versions or {})
        self.requests: list[Any] = []
        self.connections = 0
        # The listener, then its connections; their threads are in the same order.
        self._sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port: int = self._sockets[0].getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The listener first: once its thread has ended, there are no further connections.
        for each, thread in zip(self._sockets, self._threads, strict=False):
            with suppress(OSError):  # the other side has closed it
                each.shutdown(socket.SHUT_RDWR)
            thread.join()
        self._sockets[0].close()

    def are_all_closed(self) -> bool:
        """Whether the other side has closed its connections; waits a little for those that it is closing."""
        for thread in self._threads[1:]:
            thread.join(10)
        return not any(thread.is_alive() for thread in self._threads[1:])

    def named(self, name: str) -> list[Any]:
        return [request for request in self.requests if type(request).__name__ == f"{name}Request"]

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was shut down
            while True:
                connection, _ = self._sockets[0].accept()
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._sockets.append(connection)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            while 0 < (size := int.from_bytes(stream.read(4), "big")) < LARGEST_REQUEST:
                answer = self._answer(stream.read(size))
                if answer is CLOSE:
                    break
                if answer is not SILENCE:
                    connection.sendall(answer)

    def _answer(self, frame: bytes) -> Any:
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        kind = REQUESTS[key]
        stream = io.BytesIO(frame)
        header = RequestHeader.decode(stream, flexible=kind.flexible_version_q(version))
        request = kind.decode(stream.read(), version=version)
        name = kind.__name__.removesuffix("Request")
        if name == "ApiVersions":
            fields = self.answers.get(name, self._api_versions)(request)
        else:
            self.requests.append(request)
            fields = self.answers[name](request)
        if not isinstance(fields, dict):
            return fields
        correlation_id = fields.pop("correlation_id", header.correlation_id)
        response_class = ResponseClassRegistry.get_response_class(header)[None]
        response = response_class(version=fields.pop("as_version", version), **fields)
        response.with_header(correlation_id=correlation_id)
        return response.encode(header=True, framed=True)

    def _api_versions(self, request: Any) -> Answer:
        one = ApiVersionsResponse.ApiVersion
        return {
            "error_code": 0,
            "api_keys": [
                one(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
            ],
        }


ID = uuid.UUID(int=(1 << 127) + 5)


class Metadata:
    """The answers of brokers about topic `t`. A test may change them while the cluster is in use."""

    def __init__(self) -> None:
        self.brokers: dict[int, FakeBroker] = {}
        self.leaders: dict[int, tuple[int, int]] = {0: (1, 5)}  # partition: leader, epoch
        self.topic_id: uuid.UUID | None = ID

    def __call__(self, request: Any) -> dict[str, Any]:
        names = ["t"] if request.topics is None else [each.name for each in request.topics]
        return metadata(self.brokers, {name: (self.topic_id, self.leaders) if name == "t" else None for name in names})


def metadata(
    brokers: Mapping[int, FakeBroker], topics: Mapping[str, tuple[uuid.UUID | None, dict[int, tuple[int, int]]] | None]
) -> dict[str, Any]:
    """An answer to Metadata. `topics`: id, and leader and its epoch by partition; None: there is no such topic."""
    broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition

    def described(name: str) -> Any:
        topic_id, leaders = topics[name] or (None, {})
        partitions = [
            partition(error_code=0 if leader >= 0 else 5, partition_index=number, leader_id=leader, leader_epoch=epoch)
            for number, (leader, epoch) in leaders.items()
        ]
        return topic(error_code=0 if topics[name] else 3, name=name, topic_id=topic_id, partitions=partitions)

    return {
        "brokers": [broker(node_id=node, host="127.0.0.1", port=each.port) for node, each in brokers.items()],
        "cluster_id": "cluster",
        "topics": list(map(described, topics)),
    }


def offsets(request: Any, answer: Callable[[str, Any], tuple[int, int]]) -> dict[str, Any]:
    """An answer to ListOffsets. `answer`: the error code and the offset, of a topic's name and its wanted partition."""
    topic = ListOffsetsResponse.ListOffsetsTopicResponse

    def answered(name: str, wanted: Any) -> Any:
        error, offset = answer(name, wanted)
        number = wanted.partition_index
        return topic.ListOffsetsPartitionResponse(partition_index=number, error_code=error, offset=offset)

    found = {each.name: [answered(each.name, wanted) for wanted in each.partitions] for each in request.topics}
    return {"topics": [topic(name=name, partitions=partitions) for name, partitions in found.items()]}


def batches(request: Any, high_watermark: int, records: bytes | None, error: int = 0, **more: Any) -> dict[str, Any]:
    """An answer to a Fetch of one partition."""
    (topic,) = request.topics
    of_topic = FetchResponse.FetchableTopicResponse
    one = of_topic.PartitionData(
        partition_index=topic.partitions[0].partition,
        error_code=error,
        high_watermark=high_watermark,
        records=records,
        **more,
    )
    return {"responses": [of_topic(topic=topic.topic, topic_id=topic.topic_id, partitions=[one])]}


def cluster_at(*brokers: FakeBroker, timeout_ms: int = 10_000, **properties: str) -> Cluster:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return Cluster(client_properties(",".join(each.address for each in brokers), names), timeout_ms=timeout_ms)
