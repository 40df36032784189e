"""Ports of brokers, reserved between processes."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"
# Below the ports from which a system takes those of outgoing connections: while a broker is down, it keeps its port,
# and no client connects to itself on it.
PORTS = range(21_000, 29_000)


class Port:
    """A port of ours until it is released.

    Reserved between processes by a UDP socket of that number: TCP's ports are others, and brokers listen there.
    """

    def __init__(self) -> None:
        for number in PORTS:
            reserved = _bound(number)
            if reserved is not None:
                self.number, self._reserved = number, reserved
                return
        raise RuntimeError(f"all ports from {PORTS.start} to {PORTS.stop} are taken")

    def release(self) -> None:
        self._reserved.close()


def _bound(number: int) -> socket.socket | None:
    reserved = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        reserved.bind((HOST, number))
        with socket.socket() as server:
            # As brokers do: connections that have just ended do not keep them from listening.
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((HOST, number))
    except OSError:
        reserved.close()
        return None
    return reserved


def listens(port: int) -> bool:
    """Whether a process takes connections there."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex((HOST, port)) == 0
