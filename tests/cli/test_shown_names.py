"""A name can be typed as it is shown, a suggestion can be pasted into a shell, and an empty name is visible."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Any

import pytest

from kgroups_spark.cli.open_lake import _name_both
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
def test_a_group_can_be_typed_as_it_is_shown(command: str, name: str, kgroups: Any) -> None:
    _, out, _ = kgroups("describe --all-groups --state", lake())
    shown = [line.split("  ")[0] for line in out.splitlines()[1:]]
    (typed,) = [each for each in shown if each == SHOWN.get(name, name)]
    code, out, err = kgroups(f"{command} {shlex.quote(f'--group={typed}')}", lake())
    assert code == 0, err
    if command == "describe":
        assert re.split(" {2,}", out.splitlines()[1])[:2] == [typed, typed]


SHOWN = {"": "''", "''": r"\x27\x27", "orders ": r"orders\x20", r"orders\x20": r"orders\\x20", "a\x1bc": r"a\x1bc"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "--group"])
def test_a_topic_can_be_typed_as_it_is_shown(name: str, rows: Any) -> None:
    others = {shown for other, shown in SHOWN.items() if other != name}
    for typed in {SHOWN.get(name, name), name} - others:
        topic = f"{typed}:0" if typed else ""
        found = rows(shlex.join(["history", "--all-groups", "--topic", topic, "--commits"]), lake())
        assert [row["topic"] for row in found] == [name]


def test_a_suggestion_can_be_pasted(kgroups: Any) -> None:
    code, _, err = kgroups("describe --group orders_", lake())
    assert code == 1 and "no group 'orders_' in the log" in err
    suggested = re.search(r"did you mean (.*)\?", err)
    assert suggested is not None
    words = suggested[1].split(" or ")
    assert sorted(words) == ["'orders\\x20'", "orders"]
    for word in words:
        assert kgroups(f"describe --group {word}", lake())[0] == 0


def test_a_name_that_looks_like_another_ones_shown_form_is_named(
    kgroups: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _name_both(lake(), ["orders ", r"orders\x20", "orders", ""])
    assert sorted(capsys.readouterr().err.splitlines()) == [
        r"the group '' is meant; another one has the name '' itself: --group '\x27\x27'",
        r"the group 'orders ' is meant; another one has the name orders\x20 itself: --group 'orders\\x20'",
    ]
    alone = ArrowReader(audit(Log().commit(r"bills\x20").files).tables(), to_datetime(START))
    code, _, err = kgroups("describe --group 'bills\\x20'", alone)
    assert code == 1 and r"no group 'bills\x20' in the log" in err and r"did you mean 'bills\\x20'?" in err


def test_an_unknown_name_is_shown_as_it_was_typed(kgroups: Any) -> None:
    _, _, err = kgroups("history --group 'bills\\x20'", lake())
    assert "no group 'bills\\x20' in the log" in err


def test_an_empty_name_is_visible(kgroups: Any) -> None:
    _, out, err = kgroups("describe --group ''", lake())
    assert "group '' has no active members" in err
    assert out.splitlines()[1].split()[:2] == ["''", "''"]
