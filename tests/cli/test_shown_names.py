"""A name is typed as it is, a suggestion can be pasted into a shell, and an empty name is visible."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Any

import pytest

from kgroups_spark.words import to_datetime
from tests.cli.story_reader import ArrowReader
from tests.findings.logs import START, Log
from tests.nights.nights_here import audit

NAMES = ("orders", "orders ", "", "''", "CORP\\user", "a\x1bc", r"orders\x20", "it's", "--group")


@cache
def lake() -> ArrowReader:
    """Each of NAMES is a group with a topic of that name."""
    log = Log()
    for number, name in enumerate(NAMES):
        log.later(1).commit(name, name, offset=number)
    return ArrowReader(audit(log.files).tables(), to_datetime(START))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ["describe", "history", "export-offsets --output -"])
def test_a_group_is_shown_so_that_no_two_look_alike(command: str, name: str, kgroups: Any) -> None:
    code, out, err = kgroups(f"{command} {shlex.quote(f'--group={name}')}", lake())
    assert code == 0, err
    if command == "describe":
        assert re.split(" {2,}", out.splitlines()[1])[:2] == [SHOWN.get(name, name)] * 2


SHOWN = {"": "''", "''": r"\x27\x27", "orders ": r"orders\x20", r"orders\x20": r"orders\\x20", "a\x1bc": r"a\x1bc"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "--group"])
def test_a_topic_is_typed_as_it_is(name: str, rows: Any) -> None:
    topic = f"{name}:0" if name else ""
    found = rows(shlex.join(["history", "--all-groups", "--topic", topic, "--commits"]), lake())
    assert [row["topic"] for row in found] == [name]


def test_a_suggestion_can_be_pasted(kgroups: Any) -> None:
    code, _, err = kgroups("describe --group orders_", lake())
    assert code == 1 and "no group 'orders_' in the log" in err
    suggested = re.search(r"did you mean (.*)\?", err)
    assert suggested is not None
    words = suggested[1].split(" or ")
    assert sorted(words) == ["'orders '", "orders"]
    for word in words:
        assert kgroups(f"describe --group {word}", lake())[0] == 0


def test_a_name_typed_as_it_is_shown_is_suggested(kgroups: Any) -> None:
    alone = ArrowReader(audit(Log().commit("bills ").commit("a\x1bc").files).tables(), to_datetime(START))
    for typed, word in ((r"bills\x20", "'bills '"), (r"a\x1bc", r"$'a\x1bc'")):
        code, _, err = kgroups(f"describe --group '{typed}'", alone)
        assert code == 1 and f"did you mean {word}?" in err


def test_an_empty_name_is_visible(kgroups: Any) -> None:
    _, out, err = kgroups("describe --group ''", lake())
    assert "group '' has no active members" in err
    assert out.splitlines()[1].split()[:2] == ["''", "''"]
