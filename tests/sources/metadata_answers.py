"""Answers to Metadata, and a cluster that gives them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from kafka.protocol.metadata import MetadataResponse

from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster
from tests.sources.fake_broker import FakeBroker

ID = uuid.UUID(int=(1 << 127) + 5)
Start = Callable[..., FakeBroker]


class Metadata:
    """The answers of brokers about topic `t`. A test may change them while the cluster is in use."""

    def __init__(self) -> None:
        self.brokers: dict[int, FakeBroker] = {}
        self.leaders: dict[int, tuple[int, int]] = {0: (1, 5)}  # partition: leader, epoch
        self.topic_id: uuid.UUID | None = ID
        self.error = 0

    def __call__(self, request: Any) -> dict[str, Any]:
        topic, partition = MetadataResponse.MetadataResponseTopic, None
        partition = topic.MetadataResponsePartition
        names = ["t"] if request.topics is None else [each.name for each in request.topics]
        return {
            "brokers": [
                MetadataResponse.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=broker.port, rack=None)
                for node, broker in self.brokers.items()
            ],
            "cluster_id": "cluster",
            "topics": [
                topic(
                    error_code=self.error if name == "t" else 3,
                    name=name,
                    topic_id=self.topic_id if name == "t" else None,
                    partitions=[
                        partition(
                            error_code=0 if leader >= 0 else 5,
                            partition_index=number,
                            leader_id=leader,
                            leader_epoch=epoch,
                            replica_nodes=[],
                            isr_nodes=[],
                            offline_replicas=[],
                        )
                        for number, (leader, epoch) in self.leaders.items()
                        if name == "t" and not self.error
                    ],
                )
                for name in names
            ],
        }


def cluster_at(*brokers: FakeBroker, timeout_ms: int = 10_000, **properties: str) -> Cluster:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return Cluster(client_properties(",".join(each.address for each in brokers), names), timeout_ms=timeout_ms)
