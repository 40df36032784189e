"""Live nights in this process: audits of fake brokers that have logs, over loopback, without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from kafka.protocol.admin import DescribeConfigsResponse, ListConfigResourcesResponse

from kgroups_spark.audit.result import AuditSummary
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import EARLIEST
from tests.nights.nights_here import Audited, How, in_memory, new_lake, patched
from tests.sources.fake_broker import FakeBroker, batches, metadata, offsets
from tests.sources.fake_cluster import base_of, last_of

OFFSETS = "__consumer_offsets"
OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER = 1, 6
TOPIC, BROKER, GROUP = 2, 4, 32
# The source of a configuration that was set, by type of the resource.
BY_HAND = {TOPIC: 1, BROKER: 4, GROUP: 8}
ANSWERED = ("Metadata", "ListOffsets", "Fetch", "DescribeConfigs", "ListConfigResources")
# By when expiry is judged: long before anything expires.
AS_OF = 1_700_000_000_000


@dataclass
class Log:
    """One partition. `end`: one more than its last offset; None: after the last batch."""

    batches: list[bytes] = field(default_factory=list)
    leader: int = 1
    epoch: int = 1
    start: int = 0
    end: int | None = None

    @property
    def high_watermark(self) -> int:
        return max([self.start, *(last_of(each) + 1 for each in self.batches)]) if self.end is None else self.end


class LogBrokers:
    """Brokers with the node ids 1, 2 and so on. `topics`: logs by partition. `instead`: by the name of a request, a
    function of the node id and the request; its answer is sent, or the usual one if it is None. `configs`: those of
    brokers by node id, and of groups by name."""

    def __init__(self, topics: dict[str, list[Log]], nodes: int = 1) -> None:
        self.topics = topics
        self.configs: dict[str, dict[str, str]] = {}
        self.instead: dict[str, Callable[[int, Any], Any]] = {}
        self.brokers = {node: FakeBroker(self._answers(node)) for node in range(1, nodes + 1)}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        for broker in self.brokers.values():
            self._open.enter_context(broker)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def address(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def id_of(self, topic: str) -> uuid.UUID:
        return uuid.uuid5(uuid.NAMESPACE_DNS, topic)

    def log_of(self, request: Any) -> tuple[str, Log]:
        """The topic and the log that a Fetch request is for."""
        (topic,) = request.topics
        (name,) = (name for name in self.topics if name == topic.topic or self.id_of(name) == topic.topic_id)
        return name, self.topics[name][topic.partitions[0].partition]

    def _answers(self, node: int) -> dict[str, Callable[[Any], Any]]:
        def answer_of(name: str) -> Callable[[Any], Any]:
            def answer(request: Any) -> Any:
                other = self.instead[name](node, request) if name in self.instead else None
                return getattr(self, name)(node, request) if other is None else other

            return answer

        return {name: answer_of(name) for name in ANSWERED}

    def Metadata(self, _: int, request: Any) -> dict[str, Any]:
        names = list(self.topics) if request.topics is None else [each.name for each in request.topics]
        return metadata(self.brokers, {name: self._described(name) for name in names})

    def _described(self, name: str) -> tuple[uuid.UUID, dict[int, tuple[int, int]]] | None:
        if name not in self.topics:
            return None
        return self.id_of(name), {number: (log.leader, log.epoch) for number, log in enumerate(self.topics[name])}

    def ListOffsets(self, node: int, request: Any) -> dict[str, Any]:
        def offset(name: str, wanted: Any) -> tuple[int, int]:
            log = self.topics[name][wanted.partition_index]
            at = log.start if wanted.timestamp == EARLIEST else log.high_watermark
            return 0 if log.leader == node else NOT_LEADER_OR_FOLLOWER, at

        return offsets(request, offset)

    def Fetch(self, node: int, request: Any) -> dict[str, Any]:
        ((wanted,),) = (topic.partitions for topic in request.topics)
        _, log = self.log_of(request)
        error = 0 if log.leader == node else NOT_LEADER_OR_FOLLOWER
        if not log.start <= wanted.fetch_offset <= log.high_watermark:
            error = OFFSET_OUT_OF_RANGE
        return batches(request, log.high_watermark, b"" if error else _records(log, wanted), error)

    def DescribeConfigs(self, _: int, request: Any) -> dict[str, Any]:
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult
        return {
            "results": [
                result(
                    error_code=0,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[
                        entry(name=name, value=value, config_source=BY_HAND[each.resource_type])
                        for name, value in self.configs.get(each.resource_name, {}).items()
                    ],
                )
                for each in request.resources
            ]
        }

    def ListConfigResources(self, *_: Any) -> dict[str, Any]:
        resource = ListConfigResourcesResponse.ConfigResource
        groups = [resource(resource_name=name, resource_type=GROUP) for name in self.configs if not name.isdigit()]
        return {"error_code": 0, "config_resources": groups}


def _records(log: Log, wanted: Any) -> bytes:
    """Batches from the wanted offset on, cut at the wanted size, but the first one whole."""
    found = [b for b in log.batches if last_of(b) >= wanted.fetch_offset and base_of(b) < log.high_watermark]
    return b"".join(found)[: max([wanted.partition_max_bytes, *map(len, found[:1])])]


@dataclass
class LiveNights:
    """Audits of the brokers, one after the other, in one lake."""

    brokers: LogBrokers
    lake: Audited = field(default_factory=new_lake)

    def night(
        self, include: Sequence[str] = (), properties: dict[str, str] | None = None, **options: Any
    ) -> AuditSummary:
        client = client_properties(self.brokers.address, {"default.api.timeout.ms": "500", **(properties or {})})
        options = {"as_of": AS_OF, **options}
        with in_memory(), patched(How()):
            self.lake._ended(
                run_audit(
                    self.lake.session, AuditOptions(self.lake.lake, client=client, include=tuple(include), **options)
                )
            )
        return self.lake.nights[-1]

    def ends(self) -> dict[int, int]:
        """How far each offsets partition has been read."""
        return {each.offsets_partition: each.end_offset for each in self.lake.newest.partitions or ()}
