"""A defect on the way to the table of findings, or of the summary, costs the findings or the lines, never the audit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest

from kgroups_spark import errors
from kgroups_spark.audit import result
from kgroups_spark.audit.result import AuditSummary, LedgerFacts
from kgroups_spark.audit.run import _summary
from kgroups_spark.findings import finders
from kgroups_spark.findings.finding import Evidence, Finding
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.spark.interruption import how_it_ended, interruptible

NOW = datetime(2026, 11, 20, tzinfo=UTC)
FACTS = LedgerFacts({"rows_added": {"groups": 1}, "notes": ("before",)})
ROW = AuditRow(1, "finished", "host", NOW)
EVIDENCE = Evidence(cast(Any, None), 1, NOW, NOW, 1)
GOOD = [Finding("ghost_member", "detail", f"g{number}", member_id="m") for number in range(5)]
BAD = Finding("ghost_member", "detail", "g", member_id="m", log_offset=1 << 80)


@pytest.fixture(autouse=True)
def survived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "SURVIVED", (Exception,))


def broken(*_: object) -> Any:
    raise ZeroDivisionError("a name of the log")


def found() -> tuple[list[Any], dict[str, Any]]:
    """The rows that were appended, and the ledger's columns."""
    appended: list[Any] = []
    writer = SimpleNamespace(audit_id=1, append_table=lambda _, rows: appended.extend(rows.to_pylist()))
    work = SimpleNamespace(progress=lambda _: None, writer=writer, audit_id=1)
    facts = FACTS._replace(columns={**FACTS.columns, "rows_added": dict(FACTS.columns["rows_added"])})
    result.find(cast(Any, work), facts, cast(Any, SimpleNamespace(progress=[])))
    return appended, facts.columns


def test_evidence_that_fails_leaves_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "evidence_of", broken)
    appended, columns = found()
    assert (appended, columns["rows_added"]) == ([], {"groups": 1})
    assert columns["notes"][0] == "before"
    assert columns["notes"][1].startswith("looking for findings failed (ZeroDivisionError at test_failures.py:")


def test_findings_that_the_table_refuses_leave_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "evidence_of", lambda *_: ROW)
    monkeypatch.setattr(result, "look", lambda _: finders.Found([*GOOD, BAD], []))
    appended, columns = found()
    assert (appended, columns["rows_added"]) == ([], {"groups": 1})
    assert [note.partition(" (")[0] for note in columns["notes"]] == ["before", "looking for findings failed"]


def test_a_failure_of_duckdb_leaves_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finders, "connect", broken)
    monkeypatch.setattr(finders, "_lots", lambda _: ())
    looked = finders.look(EVIDENCE)
    assert looked.findings == []
    assert [note.partition(" at ")[0] for note in looked.notes] == ["starting DuckDB failed (ZeroDivisionError"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("call", ["connect", "found_by_sql"])
def test_a_signal_while_duckdb_works_ends_the_audit(
    call: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB reads rows that take the signal, whose exception it would turn into one of its own."""
    answers = []

    def rows() -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), number)
        yield pa.RecordBatch.from_pydict({"a": [1]})

    def asked(*_: object) -> Any:
        with duckdb.connect() as connection:
            connection.register("rows", pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), rows()))
            answers.append(connection.execute("FROM rows").fetchall())

    monkeypatch.setattr(finders, call, asked)
    monkeypatch.setattr(finders, "_lots", lambda _: ())
    with interruptible():
        with pytest.raises(KeyboardInterrupt):
            finders.look(EVIDENCE)
        assert how_it_ended()[1] == 128 + number
    assert answers == [[(1,)]]


def test_a_comparison_that_fails_is_a_line_of_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = result.CurrentTables()
    monkeypatch.setattr("kgroups_spark.audit.run.current_files", lambda _: {})
    monkeypatch.setattr("kgroups_spark.audit.run.current_tables", lambda *_: tables)
    monkeypatch.setattr("kgroups_spark.audit.run.changes_since", broken)
    summary = _summary(cast(Any, None), ROW, ROW, {})
    (note,) = summary.failures
    assert note.startswith("comparing with the audit before failed (ZeroDivisionError")


def test_a_summary_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AuditSummary, "_read", broken)
    (line,) = AuditSummary(ROW, cast(Any, None), None, "parts").lines()
    assert line.startswith("audit 1: summing the audit up failed (ZeroDivisionError")
