"""Help fits the width of the screen: no line of prose, and no example that can be shorter, is wider."""

from __future__ import annotations

import re
import shlex

import pytest

from kgroups_spark.cli.main import command_line
from kgroups_spark.cli.options import HelpFormatter

TEXT = """\
Prose that is written in lines as wide as the editor, and is filled where the screen
is narrower than that.
  1. A point of a list that is so long that it goes on in
     a second line.
Two.

examples:
  kgroups audit --lake ./lake            a short comment
  kgroups expiring --lake ./lake --until 2026-11-23T08:00
                                         a comment of its own line"""


def shown(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width + 2))
    return HelpFormatter("kgroups")._fill_text(TEXT, width, "").splitlines()


def test_help_that_fits_is_printed_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(84, monkeypatch) == TEXT.splitlines()


def test_on_a_narrow_screen_prose_is_filled_and_comments_go_below_their_examples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shown(56, monkeypatch) == [
        "Prose that is written in lines as wide as the editor,",
        "and is filled where the screen is narrower than that.",
        "  1. A point of a list that is so long that it goes on",
        "     in a second line.",
        "Two.",
        "",
        "examples:",
        "  kgroups audit --lake ./lake            a short comment",
        "  kgroups expiring --lake ./lake \\",
        "      --until 2026-11-23T08:00",
        "      a comment of its own line",
    ]


def helps() -> dict[str, str]:
    """The help of every command in 80 columns."""
    parser = command_line()
    (commands,) = (action for action in parser._actions if action.dest == "command")
    assert isinstance(commands.choices, dict)
    return {"": parser.format_help()} | {name: each.format_help() for name, each in commands.choices.items()}


def test_no_help_is_wider_than_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide = [line for text in helps().values() for line in text.splitlines() if len(line) > 80]
    assert wide == []


def test_each_point_of_a_list_begins_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = helps()["maintain"].splitlines()
    points = [line for line in lines if re.search(r"\b\d\. [A-Z]", line)]
    assert [line[:5] for line in points] == ["  1. ", "  2. ", "  3. "]
    assert lines[lines.index(points[0]) + 1].startswith("     ")


def test_no_word_of_the_help_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    before = {name: text.split() for name, text in helps().items()}
    monkeypatch.setenv("COLUMNS", "80")
    assert {name: text.replace(" \\\n", " ").split() for name, text in helps().items()} == before


def commands_in(text: str) -> list[list[str]]:
    """The words that a shell reads in each example; a line that ends with a backslash continues in the next."""
    examples = re.sub(r"\\\n +", "", text.partition("examples:\n")[2].partition("\n\n")[0]).splitlines()
    return [shlex.split(re.split(" {3,}", line.strip())[0]) for line in examples if line.startswith("  kgroups ")]


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_an_example_can_be_pasted_however_narrow_the_screen(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    before = {name: [" ".join(words) for words in commands_in(text)] for name, text in helps().items()}
    assert sum(map(len, before.values())) > 40
    monkeypatch.setenv("COLUMNS", str(columns))
    assert {name: [" ".join(words) for words in commands_in(text)] for name, text in helps().items()} == before


def test_no_example_is_broken_inside_quotes() -> None:
    text = "examples:\n  kgroups sql --lake ./lake \"SELECT 'a b' FROM groups\" --format csv > 'my report.csv'"
    assert HelpFormatter("kgroups")._fill_text(text, 40, "").splitlines() == [
        "examples:",
        "  kgroups sql --lake ./lake \\",
        "      \"SELECT 'a b' FROM groups\" \\",
        "      --format csv > 'my report.csv'",
    ]
