from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kgroups_spark.lake import last_finished
from kgroups_spark.lake.last_finished import HELD_BY_THIS_PROCESS, Owner, process_start, this_host


def test_an_owner_is_read_back_from_its_text():
    owner = Owner.this_process()
    assert Owner.parse(str(owner)) == owner
    assert owner.host == this_host()
    assert owner.is_alive is False  # it holds no claim
    HELD_BY_THIS_PROCESS.add(owner.uuid)
    assert owner.is_alive
    HELD_BY_THIS_PROCESS.discard(owner.uuid)
    assert owner.is_alive is False
    assert owner._replace(pid=owner.pid + 1_000_000).is_alive is False


@pytest.mark.parametrize("host", ["my laptop/1234/4026531836", " ", "a  b ", "läptop/b o o t/1"])
def test_the_name_of_a_host_may_hold_blanks(host):
    owner = Owner(host, 4711, "123", "its-uuid")
    assert Owner.parse(str(owner)) == owner


@pytest.mark.parametrize("text", ["", "somebody", "host x 1 uuid", "host 1 uuid", "host -1 2 uuid", "host 0 2 uuid"])
def test_nothing_is_known_about_an_owner_with_an_invalid_text(text, monkeypatch):
    monkeypatch.setattr(last_finished, "this_host", lambda: text.split(" ")[0])
    assert Owner.parse(text).is_alive is None


def test_a_hidden_process_is_not_assumed_to_be_gone(monkeypatch):
    """As with hidepid=2: no /proc/<pid>, and signals to another user's process are not permitted."""
    hidden, start = Owner(last_finished.this_host(), 4711, "123", "its-uuid"), last_finished.process_start

    def kill(pid: int, signal: int) -> None:
        assert (pid, signal) == (4711, 0)
        raise answers.pop()

    monkeypatch.setattr(last_finished.os, "kill", kill)
    monkeypatch.setattr(last_finished, "process_start", lambda pid: None if pid == 4711 else start(pid))
    answers = [PermissionError(), ProcessLookupError()]
    assert hidden.is_alive is False
    assert hidden.is_alive is None


def test_an_ended_process_is_known_to_be_gone():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = Owner(last_finished.this_host(), process.pid, process_start(process.pid) or "", "its-uuid")
        assert owner.is_alive
        assert owner._replace(started="another").is_alive is False
        process.communicate(b"\n")
    assert owner.is_alive is False


def test_a_zombie_is_no_running_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process_start(process.pid) is None
    finally:
        process.wait()
