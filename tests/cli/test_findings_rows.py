"""`kgroups findings`: its rows, their order, its messages and its exit codes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable

import pytest

from kgroups_spark.cli.findings import COLUMNS, EPILOG
from kgroups_spark.cli.main import main
from kgroups_spark.findings.finding import KINDS
from kgroups_spark.tables.schemas import TABLES
from tests.cli.group_questions import FINDINGS, LOOKED, Looked

Run = Callable[..., tuple[int, str, str]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def command(*words: str, times: int = 1) -> tuple[int, str, str]:
        lake = Looked(FINDINGS * times, LOOKED)
        monkeypatch.setattr("kgroups_spark.cli.findings.open_lake", lambda arguments: lake)
        code = main(["findings", "--lake", "./lake", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


@pytest.mark.parametrize("lots", [1, 100], ids=["at the end", "amid the rows"])
def test_a_reader_that_closes_the_pipe_leaves_the_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, lots: int
) -> None:
    """As in `kgroups findings --fail-if-any | head`."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        code, _, err = run("--fail-if-any", times=lots)
    assert (code, err.count("\n")) == (4, 1)


def test_a_heading_is_as_wide_as_the_terminal_and_the_closing_line_comes_last(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "48")
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    run("--severity", "error")
    assert screen.getvalue().splitlines() == [
        "error hanging_transaction of producer 7,",
        "__consumer_offsets-9, since",
        "2026-11-16 06:30:00 UTC",
        "    What it is. Why it matters, and what to do.",
        "1 error, 0 warnings, 0 notices (audit 3, as of",
        "  2026-11-16 06:30:00 UTC)",
    ]


def test_help_names_every_finding_and_rows_have_the_whole_table() -> None:
    assert TABLES["findings"].schema.names == COLUMNS
    for name, kind in KINDS.items():
        assert f"  {name} ({kind.severity}): {kind.summary}" in EPILOG.splitlines()
