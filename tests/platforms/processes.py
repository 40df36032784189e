"""Servers of a test: started on this machine's loopback, ended with the test, their output kept in a file."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


def free_port(host: str = "127.0.0.1") -> int:
    """A port at which no process listens now."""
    with socket.socket() as sock:
        sock.bind((host, 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def server(
    command: Sequence[str], log: Path, environment: Mapping[str, str], is_up: Callable[[], bool], seconds: float = 90
) -> Iterator[subprocess.Popen[bytes]]:
    """The process once it `is_up`. Raises RuntimeError with what it said when it ends before, or takes too long."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=dict(environment))
    try:
        deadline = time.monotonic() + seconds
        while not is_up():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-3000:]}")
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listens(host: str, port: int) -> bool:
    """Whether a process takes connections there."""
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex((host, port)) == 0
