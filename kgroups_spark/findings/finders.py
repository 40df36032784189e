"""All finders and their joint result. Not in the package's `__init__`, so that code that only names findings loads
none."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kgroups_spark.attempts import attempt
from kgroups_spark.findings import transactions
from kgroups_spark.findings.by_sql import connect, found_by_sql
from kgroups_spark.findings.evidence import Evidence
from kgroups_spark.findings.finding import SQL, Finding, order

IN_PYTHON = (transactions.hanging_transaction,)


class Found(NamedTuple):
    """The findings, errors first, in an order that depends only on them; notes on finders that failed."""

    findings: list[Finding]
    notes: list[str]


def look(evidence: Evidence) -> Found:
    """All findings. One that fails finds nothing and leaves a note."""
    findings: list[Finding] = []
    with TemporaryDirectory(prefix="kgroups-findings-") as folder, ExitStack() as stack:
        connection, failure = attempt("starting DuckDB", lambda: stack.enter_context(connect(evidence, folder)))
        notes = [failure] if failure else []
        by_sql = {name: partial(found_by_sql, name, connection) for name in SQL if connection is not None}
        for name, find in (by_sql | {find.__name__: find for find in IN_PYTHON}).items():
            found, failure = attempt(f"looking for {name}", lambda find=find: list(find(evidence)))  # type: ignore[misc]
            findings += found or []
            notes += [failure] if failure else []
    return Found(sorted(findings, key=lambda each: order(each._asdict())), notes)
