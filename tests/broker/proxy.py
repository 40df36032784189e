"""A broker's address as clients know it, where the tests see every request, and can hold it.

    proxies = put_proxies_before(brokers)  # before the brokers start: they tell clients the proxies' addresses
    with proxies, brokers:
        proxies.each[0].at_fetch(3, brokers.nodes[0].restart)

PLAINTEXT only. A fetch is one of a task of ours: other clients have other names, and the driver, that plans, asks
for offsets on its connection before it fetches; tasks ask for them afterwards.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Self

from kgroups_spark.cluster.client_properties import CLIENT_ID
from tests.broker.brokers import HOST, Broker, Brokers

FETCH, LIST_OFFSETS = 1, 2  # ApiKeys


@dataclass
class Connection:
    """One client's. `asked`: requests by API key."""

    client: socket.socket
    broker: socket.socket
    client_id: str | None = None
    asked: Counter[int] = field(default_factory=Counter)

    @property
    def is_tasks(self) -> bool:
        """Whether a task of ours fetches here."""
        first = next((key for key in self.asked if key in (FETCH, LIST_OFFSETS)), None)
        return self.client_id == CLIENT_ID and first == FETCH

    def close(self) -> None:
        for end in (self.client, self.broker):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens at `address` for one broker. `fetches`: how many fetches of tasks have come."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._server = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._server.getsockname()[1]}"
        self.connections: list[Connection] = []
        self.fetches = 0
        self._happens: tuple[int, Callable[[], object]] | None = None
        self._since = 0
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_open = True

    def at_fetch(self, number: int, act: Callable[[], object]) -> None:
        """Acts before the `number`-th fetch of a task from now on (1: the next one) goes on to the broker; others of
        that task wait for it, those of other tasks do not."""
        with self._lock:
            self._happens = self.fetches + number, act

    def forget(self) -> None:
        """Nothing happens at a fetch any more."""
        with self._lock:
            self._happens = None

    @property
    def has_happened(self) -> bool:
        """Whether it acted, and tasks have fetched since."""
        with self._lock:
            return self._happens is None and self._since < self.fetches

    @property
    def fetching(self) -> int:
        """On how many connections tasks have fetched."""
        return sum(each.is_tasks for each in self.connections)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        for connection in self.connections:
            connection.close()
        for thread in self._threads:
            thread.join()
        self._server.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while self._is_open:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            broker = socket.socket()
            if broker.connect_ex((HOST, self.broker.ports["PLAINTEXT"].number)):
                client.close()
                broker.close()
                continue
            connection = Connection(client, broker)
            self.connections.append(connection)
            self._start(self._carry, connection)

    def _carry(self, connection: Connection) -> None:
        """Both ways, until one side closes."""
        back = threading.Thread(target=self._answers, args=(connection,), daemon=True)
        back.start()
        with connection.client, connection.broker:
            with suppress(OSError), connection.client.makefile("rb") as frames:
                while head := frames.read(4):
                    frame = frames.read(*struct.unpack(">i", head))
                    self._look_at(connection, frame)
                    connection.broker.sendall(head + frame)
            connection.close()
            back.join()

    def _answers(self, connection: Connection) -> None:
        with suppress(OSError):
            while answer := connection.broker.recv(1 << 16):
                connection.client.sendall(answer)
        connection.close()

    def _look_at(self, connection: Connection, frame: bytes) -> None:
        """Reads the header: API key i16, version i16, correlation id i32, client id as length i16 and text."""
        key, _, _, length = struct.unpack_from(">hhih", frame)
        connection.client_id = frame[10 : 10 + length].decode() if length >= 0 else None
        connection.asked[key] += 1
        if key == FETCH and connection.is_tasks:
            self._count_fetch()

    def _count_fetch(self) -> None:
        with self._lock:
            self.fetches += 1
            number, act = self._happens or (0, None)
            if act is None or self.fetches < number:
                return
            self._happens = None
        act()
        self._since = self.fetches


class Proxies(ExitStack):
    """One for each node of a cluster, in the order of nodes."""

    def __init__(self, each: Sequence[Proxy]) -> None:
        super().__init__()
        self.each = each
        self.address = ",".join(proxy.address for proxy in each)

    def __enter__(self) -> Self:
        super().__enter__()
        for proxy in self.each:
            self.enter_context(proxy)
        return self


def put_proxies_before(brokers: Brokers) -> Proxies:
    """Brokers that are not yet started will send all clients of their listener PLAINTEXT there."""
    proxies = [Proxy(node) for node in brokers.nodes]
    for node, proxy in zip(brokers.nodes, proxies, strict=True):
        reported = node.properties["advertised.listeners"]
        node.properties["advertised.listeners"] = reported.replace(node.address(), proxy.address)
    return Proxies(proxies)
