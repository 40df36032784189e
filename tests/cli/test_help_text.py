"""Help fits the width of the screen: no line of prose is wider, and no word is lost."""

from __future__ import annotations

import pytest

from kgroups_spark.cli.form import HelpFormatter
from kgroups_spark.cli.main import command_line

TEXT = """\
Prose that is written in lines as wide as the editor, and is filled where the screen
is narrower than that.

examples:
  kgroups groups --lake ./lake
  kgroups audit --lake ./lake            a comment, which makes this line a long one
  kgroups groups --lake ./lake --as-of '2026-11-14 03:00' --format json"""


def test_on_a_narrow_screen_prose_is_filled_and_examples_can_be_copied() -> None:
    assert HelpFormatter("kgroups")._fill_text(TEXT, 56, "").splitlines() == [
        "Prose that is written in lines as wide as the editor,",
        "and is filled where the screen is narrower than that.",
        *TEXT.splitlines()[2:5],
        "  kgroups audit --lake ./lake",
        "      a comment, which makes this line a long one",
        "  kgroups groups --lake ./lake --as-of \\",
        "      '2026-11-14 03:00' --format json",
    ]


def helps() -> dict[str, str]:
    """The help of every command in the width of the screen."""
    parser = command_line()
    (commands,) = (action for action in parser._actions if action.dest == "command")
    assert isinstance(commands.choices, dict)
    return {"": parser.format_help()} | {name: each.format_help() for name, each in commands.choices.items()}


def test_no_line_of_the_help_is_wider_than_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line for text in helps().values() for line in text.splitlines()]
    assert [line for line in lines if len(line) > 80] == []


def test_no_word_of_the_help_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    before = {name: text.split() for name, text in helps().items()}
    monkeypatch.setenv("COLUMNS", "80")
    assert {name: text.replace(" \\\n", " ").split() for name, text in helps().items()} == before
