"""Kafka's own Java clients, driven from here: Admin, members of share and streams groups, and any request at all.

One JVM with the jars of the newest release, whose clients speak to older brokers, too. py4j, which Spark brings, calls
it: no Java of ours, no compiler.
"""

from __future__ import annotations

import copy
import json
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaMember, launch_gateway
from py4j.protocol import STATIC_PREFIX

from tests.broker.brokers import JAVA, QUIET, classes, java, kafka_jars, until

RELEASE = "4.3.1"
Slot = tuple[str, int]


class JavaClients:
    """`admin`: Kafka's Admin, unless there is no `address`. `kafka`: the package org.apache.kafka. A context
    manager."""

    def __init__(self, address: str | None, release: str = RELEASE) -> None:
        (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        port, token, self._process = launch_gateway(
            jarpath=str(py4j),
            classpath=":".join(kafka_jars(release)),
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
        if address:
            self._speak_to(address)

    def _speak_to(self, address: str) -> None:
        self.address = address
        self.admin = self.kafka.clients.admin.Admin.create(self.settings())

    def of(self, address: str) -> JavaClients:
        """Clients of another cluster, in the same JVM."""
        others = copy.copy(self)
        others._speak_to(address)
        return others

    def settings(self, **more: object) -> dict[str, object]:
        """The settings of a client. Names of `more` have _ instead of dots."""
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

    def tool(self, name: str, *words: str) -> str:
        """The output of one of Kafka's command line tools, by its class below org.apache.kafka.tools. The tool has a
        JVM of its own, which it may end."""
        command = [
            *java(RELEASE, f"-XX:SharedArchiveFile={classes(RELEASE)}"),
            f"org.apache.kafka.tools.{name}",
            *words,
        ]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    def offsets(self, offsets: Mapping[Slot, int], metadata: str = "", epoch: int | None = None) -> dict[Any, Any]:
        """As Admin and producers take them."""
        optional = self.jvm.java.util.Optional
        leader_epoch = optional.empty() if epoch is None else optional.of(epoch)
        stored = self.kafka.clients.consumer.OffsetAndMetadata
        return {self.slot(slot): stored(offset, leader_epoch, metadata) for slot, offset in offsets.items()}

    def consumer(self, kind: str, **settings: object) -> Any:
        """A KafkaConsumer or a KafkaShareConsumer."""
        bytes_ = self.kafka.common.serialization.ByteArrayDeserializer
        return getattr(self.kafka.clients.consumer, kind)(self.settings(**settings), bytes_(), bytes_())

    def transactions(self, transactional_id: str, timeout_ms: int) -> Any:
        """A producer. It bumps its epoch with every transaction, where brokers let it (KIP-890)."""
        settings = self.settings(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        serializer = self.kafka.common.serialization.ByteArraySerializer
        producer = self.kafka.clients.producer.KafkaProducer(settings, serializer(), serializer())
        producer.initTransactions()
        return producer

    def streams(self, group: str, topic: str, protocol: str, folder: Path, **more: object) -> Any:
        """A running application that counts records by key, in memory, behind a repartition topic; `more` settings."""
        streams = self.kafka.streams
        builder = streams.StreamsBuilder()
        counts = streams.state.Stores.inMemoryKeyValueStore("counts")
        repartitioned = builder.stream(topic).repartition(getattr(streams.kstream.Repartitioned, "as")("by-key"))
        repartitioned.groupByKey().count(getattr(streams.kstream.Materialized, "as")(counts))
        strings = "org.apache.kafka.common.serialization.Serdes$StringSerde"
        properties = self.jvm.java.util.Properties()
        settings = self.settings(
            application_id=group,
            group_protocol=protocol,
            client_id=f"app-of-{group}",
            commit_interval_ms="200",
            auto_offset_reset="earliest",
            replication_factor="1",
            repartition_purge_interval_ms="3600000",  # its topics' logs stand still
            state_dir=str(folder),
            default_key_serde=strings,
            default_value_serde=strings,
            **more,
        )
        for name, value in settings.items():
            properties.put(name, value)
        application = streams.KafkaStreams(builder.build(), properties)
        application.start()
        until(f"{group} runs", lambda: str(application.state()) == "RUNNING")
        return application

    def stop(self, application: Any) -> None:
        """Its members leave."""
        application.close(self.close_options("streams", "LEAVE_GROUP"))

    def close_options(self, of: str, membership: str) -> Any:
        """CloseOptions of `streams` or `clients.consumer`."""
        name = f"org.apache.kafka.{of}.CloseOptions"
        operation = getattr(getattr(self.jvm, f"{name}$GroupMembershipOperation"), membership)
        # There is a static method of this name and another one: py4j looks at the first that Java happens to name.
        client = self._gateway._gateway_client
        return JavaMember("groupMembershipOperation", None, STATIC_PREFIX + name, client)(operation)

    def sleep(self, seconds: float) -> None:
        """Stops the JVM for so long: its clients neither fetch nor send anything."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the JVM and all its clients without a word to the broker."""
        self._gateway.shutdown()
        self._process.stdin.close()
        self._process.wait()
