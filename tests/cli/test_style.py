"""Marks of a terminal: only where they are wanted, and only our own."""

from __future__ import annotations

import pytest

from kgroups_spark.cli.output import show
from kgroups_spark.cli.text import Style


class Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_marks_are_off_where_they_are_not_wanted(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Style.of(Terminal()).is_on  # type: ignore[arg-type]
    monkeypatch.setenv(variable, value)
    assert not Style.of(Terminal()).is_on  # type: ignore[arg-type]


def test_a_name_cannot_forge_marks(capsys: pytest.CaptureFixture[str]) -> None:
    show(Style(True).heading("group \x1b[2J\x1b[1m\r is new"))
    show("group \x1b[2J is new")
    assert capsys.readouterr().out.splitlines() == [
        "\x1b[1mgroup \\x1b[2J\\x1b[1m\\r is new\x1b[0m",
        "group \\x1b[2J is new",
    ]


def test_an_unmarked_heading_is_the_text() -> None:
    assert Style(False).heading("Groups") == "Groups"
    assert Style(True).heading("") == ""
