"""Kafka's own Java clients, driven from here: Admin, members of share and streams groups, and any request at all.

One JVM with the jars of the newest release, whose clients speak to older brokers, too. py4j, which Spark brings, calls
it: no Java of ours, no compiler.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.broker.brokers import JAVA, QUIET
from tests.broker.jars import kafka_jars

RELEASE = "4.3.1"
Slot = tuple[str, int]


class JavaClients:
    """`admin`: Kafka's Admin. `kafka`: the package org.apache.kafka. A context manager."""

    def __init__(self, address: str) -> None:
        self.address = address
        (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        port, token, self._process = launch_gateway(
            jarpath=str(py4j),
            classpath=":".join(kafka_jars(RELEASE)),
            javaopts=[*JAVA[1:], *QUIET, "-Xmx384m"],
            die_on_exit=True,  # its input ends with this process
            enable_auth=True,
            return_proc=True,
            create_new_process_group=True,
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        self.jvm = self._gateway.jvm
        self.kafka = self.jvm.org.apache.kafka
        self.admin = self.kafka.clients.admin.Admin.create(self.settings())

    def settings(self, **more: object) -> dict[str, object]:
        """Of a client; names with _ for points."""
        named = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.address, "enable.metrics.push": "false", **named}

    def each(self, collection: Any) -> Iterator[Any]:
        """The elements of any of Java's collections."""
        return iter(self.jvm.java.util.ArrayList(collection))

    def slot(self, slot: Slot) -> Any:
        """A TopicPartition."""
        return self.kafka.common.TopicPartition(*slot)

    def slots(self, slots: Iterable[Slot]) -> set[Any]:
        return {self.slot(slot) for slot in slots}

    def request(self, name: str, version: int, **body: object) -> Any:
        """Any request, for what Admin has no method for: names and fields as in Kafka's message files, both ways."""
        java = self.jvm
        mapper = java.com.fasterxml.jackson.databind.ObjectMapper()
        message = getattr(java.org.apache.kafka.common.message, f"{name}RequestDataJsonConverter").read(
            mapper.readTree(json.dumps(body)), version
        )
        key = self.kafka.common.protocol.ApiKeys.forId(message.apiKey())
        header = self.kafka.common.requests.RequestHeader(key, version, "tests", 1)
        protocol = self.kafka.common.protocol
        sent = [
            bytes(protocol.MessageUtil.toByteBufferAccessor(part, part_version).buffer().array())
            for part, part_version in ((header.data(), header.headerVersion()), (message, version))
        ]
        host, port = self.address.split(",")[0].split(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(struct.pack(">i", sum(map(len, sent))) + b"".join(sent))
            with connection.makefile("rb") as answers:
                (size,) = struct.unpack(">i", answers.read(4))
                answer = protocol.ByteBufferAccessor(java.java.nio.ByteBuffer.wrap(answers.read(size)))
        messages = java.org.apache.kafka.common.message
        messages.ResponseHeaderData(answer, key.responseHeaderVersion(version))
        data = getattr(messages, f"{name}ResponseData")(answer, version)
        converter = getattr(messages, f"{name}ResponseDataJsonConverter")
        return json.loads(converter.write(data, version).toString())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the JVM and all its clients without a word to the broker."""
        self._gateway.shutdown()
        self._process.stdin.close()
        self._process.wait()
