"""`kgroups findings`: its rows, their order, its messages and its exit codes."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kgroups_spark.cli.findings import COLUMNS, EPILOG
from kgroups_spark.cli.main import main
from kgroups_spark.findings.finding import KINDS
from kgroups_spark.lake.last_finished import IS_FINISHED
from kgroups_spark.tables.schemas import TABLES
from tests.cli.story_reader import ArrowReader
from tests.lake.table_rows import rows_of

NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
Run = Callable[..., tuple[int, str, str]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def finding(audit_id: int, name: str, group_id: str | None, **columns: Any) -> dict[str, Any]:
    what = {"finding": name, "severity": KINDS[name].severity, "group_id": group_id}
    return {"audit_id": audit_id, **what, "detail": "What it is. Why it matters, and what to do.", **columns}


def ledger_row(audit_id: int, rows_added: dict[str, int], status: str = "finished") -> dict[str, Any]:
    return {"audit_id": audit_id, "status": status, "rows_added": rows_added, "as_of": NOW}


FINDINGS = [
    finding(2, "expiry_overdue", "billing"),
    finding(3, "throwaway_group", "app-1"),
    finding(3, "hanging_transaction", None, producer_id=7, offsets_partition=9, since=NOW),
    finding(3, "topic_recreated", "orders", topic="t", partition=None, offsets_partition=4),
    finding(3, "committed_by_non_owner", "orders", topic="t", partition=2, member_id="m"),
]
AUDITS = [
    ledger_row(1, {"offset_commits": 5}),  # by a version that did not look for findings
    ledger_row(2, {"findings": 1}),
    ledger_row(3, {"findings": 4}),
    ledger_row(4, {}),  # maintenance
    ledger_row(5, {}, status="running"),
]


class Lake(ArrowReader):
    """Findings and audits in memory."""

    location = "./lake"

    def __init__(self, findings: list[dict[str, Any]], audits: list[dict[str, Any]]) -> None:
        named = {"findings": findings, "audits": audits, "groups": [{"group_id": "orders"}]}
        self.tables = {name: rows_of(name, *rows) for name, rows in named.items()}

    @property
    def audit_id(self) -> int:
        finished = self.table_rows("audits", ["audit_id"], [IS_FINISHED])
        return max(finished["audit_id"].to_pylist(), default=0)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def command(*words: str, of: Lake | None = None) -> tuple[int, str, str]:
        lake = of or Lake(FINDINGS, AUDITS)
        monkeypatch.setattr("kgroups_spark.cli.findings.open_lake", lambda arguments: lake)
        code = main(["findings", "--lake", "./lake", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


def reported(out: str) -> list[tuple[int, str, str | None]]:
    rows = map(json.loads, out.splitlines())
    return [(row["audit_id"], row["finding"], row["group_id"]) for row in rows]


OF_LAST = [
    (3, "hanging_transaction", None),
    (3, "committed_by_non_owner", "orders"),
    (3, "topic_recreated", "orders"),
    (3, "throwaway_group", "app-1"),
]


@pytest.mark.parametrize("lots", [1, 100], ids=["at the end", "amid the rows"])
def test_a_reader_that_closes_the_pipe_leaves_the_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, lots: int
) -> None:
    """As in `kgroups findings --fail-if-any | head`."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        code, _, err = run("--fail-if-any", of=Lake(FINDINGS * lots, AUDITS))
    assert (code, err.count("\n")) == (4, 1)


def test_findings_of_the_last_audit_that_looked_are_reported_errors_first(run: Run) -> None:
    code, out, err = run("--format", "json")
    assert (code, reported(out)) == (0, OF_LAST)
    assert err == "1 error, 2 warnings, 1 notice (audit 3, as of 2026-11-16 06:30:00 UTC)\n"
    assert list(json.loads(out.splitlines()[0])) == TABLES["findings"].schema.names


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--severity", "ERROR,notice"], [OF_LAST[0], OF_LAST[3]]),
        (["--finding", "topic_recreated"], [OF_LAST[2]]),
        (["--group", "orders"], OF_LAST[1:3]),
        (["--group", "orders", "--group", "app-1"], OF_LAST[1:]),
        (["--group", "billing"], []),
        (["--all-audits"], [*OF_LAST, (2, "expiry_overdue", "billing")]),
        (["--all-audits", "--group", "billing"], [(2, "expiry_overdue", "billing")]),
    ],
    ids=lambda value: "-".join(value).strip("-") if value and isinstance(value[0], str) else "",
)
def test_options_choose_findings(run: Run, words: list[str], found: list[Any]) -> None:
    code, out, _ = run("--format", "json", *words)
    assert (code, reported(out)) == (0, found)
    code, out, _ = run("--format", "json", "--fail-if-any", *words)
    assert (code, reported(out)) == (4 if found else 0, found)


def test_as_text_each_finding_is_a_paragraph_headed_by_its_subject(run: Run) -> None:
    _, out, _ = run("--severity", "error,warning")
    assert out.splitlines() == [
        "error hanging_transaction of producer 7, __consumer_offsets-9, since 2026-11-16 06:30:00 UTC",
        "    What it is. Why it matters, and what to do.",
        "warning committed_by_non_owner of group orders, topic t-2, member m",
        "    What it is. Why it matters, and what to do.",
        "warning topic_recreated of group orders, topic t, __consumer_offsets-4",
        "    What it is. Why it matters, and what to do.",
    ]
    assert run("--all-audits", "--group", "billing")[1].startswith("audit 2: ") is False
    assert run("--all-audits")[1].splitlines()[-2] == "audit 2: warning expiry_overdue of group billing"


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


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--finding", "expiry_overdu"], 2, "did you mean expiry_overdue?"),
        (["--severity", "warnings"], 2, "did you mean warning?"),
        (["--group", "order"], 1, "did you mean orders?"),
    ],
    ids=lambda value: value[0].strip("-") if isinstance(value, list) else "",
)
def test_a_mistake_is_reported_in_one_message(run: Run, words: list[str], code: int, message: str) -> None:
    found, out, err = run(*words)
    assert (found, out) == (code, "")
    assert message in err and "Traceback" not in err


def test_a_lake_never_searched_for_findings_says_what_to_do(run: Run) -> None:
    code, out, err = run(of=Lake([], AUDITS[:1]))
    assert (code, out) == (1, "")
    assert "run kgroups audit" in err


def test_an_audit_that_found_nothing_says_so(run: Run) -> None:
    sound = Lake(FINDINGS, [*AUDITS, ledger_row(6, {"findings": 0})])
    assert run("--fail-if-any", of=sound) == (
        0,
        "",
        "0 errors, 0 warnings, 0 notices (audit 6, as of 2026-11-16 06:30:00 UTC)\n",
    )


def test_help_names_every_finding_and_rows_have_the_whole_table() -> None:
    assert TABLES["findings"].schema.names == COLUMNS
    for name, kind in KINDS.items():
        assert f"  {name} ({kind.severity}): {kind.summary}" in EPILOG.splitlines()
