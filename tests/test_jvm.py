"""The output of Spark's JVM goes through us; a shell takes the JVM's place."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from kgroups_spark.spark.session import Jvm


def shell(script: str, said: list[str]) -> Jvm:
    return Jvm(["sh", "-c", script], said.append, {"stdin": subprocess.PIPE})


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)


def test_output_of_a_jvm_that_fails_to_start_is_passed_on() -> None:
    said: list[str] = []
    jvm = shell("echo 'resolving orders'; echo 'no network' >&2; exit 1", said)
    jvm.process.wait()
    assert said == []
    jvm.failed()
    assert said == ["resolving orders", "no network"]


def test_output_of_a_running_jvm_is_passed_on_at_once_until_it_is_stopped() -> None:
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


def test_a_jvm_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroups_spark.spark.session.SECONDS_TO_END", 0.2)
    jvm = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", [])
    until(lambda: bool(jvm.held_back))
    jvm.stop()
    assert jvm.process.wait() == -9
