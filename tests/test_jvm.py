"""The output of Spark's JVM goes through us; a shell takes the JVM's place."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from kgroups_spark.jvm import Jvm


def shell(script: str, said: list[str]) -> Jvm:
    return Jvm(["sh", "-c", script], said.append, {"stdin": subprocess.PIPE})


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)


def test_what_it_says_while_it_starts_is_said_if_that_fails() -> None:
    said: list[str] = []
    jvm = shell("echo 'resolving orders'; echo 'no network' >&2; exit 1", said)
    jvm.process.wait()
    assert said == []
    jvm.failed()
    assert said == ["resolving orders", "no network"]


def test_what_it_says_later_is_said_at_once_and_nothing_after_its_end() -> None:
    said: list[str] = []
    ending = "trap 'echo a stack; exit 0' TERM; while :; do sleep 0.05; done"
    jvm = shell(f"echo noise; read go; {ending.replace('while', 'echo out of memory >&2; while')}", said)
    until(lambda: bool(jvm.held_back))
    jvm.started()
    assert jvm.process.stdin is not None
    jvm.process.stdin.write(b"go\n")
    jvm.process.stdin.flush()
    until(lambda: bool(said))
    jvm.stop()
    assert (jvm.process.poll(), said) == (0, ["out of memory"])


def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroups_spark.jvm.SECONDS_TO_END", 0.2)
    jvm = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", [])
    until(lambda: bool(jvm.held_back))
    jvm.stop()
    assert jvm.process.wait() == -9
