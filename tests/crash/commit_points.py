"""Every place where an audit changes the lake, by name, and audits that break there.

A commit point is (table, operation, how often before in the same audit). The state of a lake after one commit is that
before the next, so that all states a killed audit can leave are photographed in a single audit.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from kgroups_spark.audit.run import AuditOptions, AuditSummary, run_audit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.sql.by_duckdb import DuckDbLake, DuckDbReader
from kgroups_spark.sql.by_spark import SparkReader
from kgroups_spark.sql.reader import LakeReader
from kgroups_spark.tables.schemas import TABLES
from tests.nights.lakes import assert_every_record_is_in_one_table, contents_of, rows
from tests.protocol.fake_delta import one_by_one

CommitPoint = tuple[str, str, int]
BEFORE, AFTER = "before", "after"
NOW = [name for name, table in TABLES.items() if table.kind == "current"]


class StorageGone(Exception):
    """The error by which the tests break an audit. Nothing in the package knows it."""


def audit(spark: Any, lake: Path, log: Path, **options: Any) -> AuditSummary:
    """An audit of the log's folder."""
    return run_audit(spark, AuditOptions(lake=str(lake), segments=[str(log)], **options))


@contextmanager
def at_each_commit(act: Callable[[CommitPoint, str], None]) -> Iterator[None]:
    """Calls `act` before the write of each commit point and after it succeeded, but before its writer knows."""
    commit, seen = Lake.commit, Counter[tuple[str, str]]()

    def watched(self: Lake, table: str, operation: str, write: Callable[[], Any]) -> Any:
        point = (table, operation, seen[table, operation])
        seen[table, operation] += 1
        act(point, BEFORE)
        answer = commit(self, table, operation, write)
        act(point, AFTER)
        return answer

    with mock.patch.object(Lake, "commit", watched), one_by_one():
        yield


def commit_points(do: Callable[[], object]) -> list[CommitPoint]:
    """The commit points that `do` passes, in order."""
    points: list[CommitPoint] = []
    with at_each_commit(lambda point, when: points.append(point) if when == BEFORE else None):
        do()
    return points


def broken_at(point: CommitPoint, when: str, do: Callable[[], object]) -> None:
    """Does it until that point, where it breaks. Raises AssertionError if it does not come by there."""

    def act(at: CommitPoint, now: str) -> None:
        if (at, now) == (point, when):
            raise StorageGone(f"{when} {point}")

    try:
        with at_each_commit(act):
            do()
    except StorageGone:
        return
    raise AssertionError(f"{point} was never come by")


def photographs(lake: Path, folder: Path, do: Callable[[], object]) -> dict[CommitPoint, Path]:
    """Copies of the lake as it was before each commit. Raises AssertionError if a table changed between two of them:
    then there would be states that no copy shows."""
    found: dict[CommitPoint, Path] = {}
    left: list[Path] = []

    def act(point: CommitPoint, when: str) -> None:
        logs = sorted(lake.glob("*/_delta_log/*.json"))
        if when == AFTER:
            left[:] = logs
        elif lake.exists():
            assert logs == left or not found, point
            found[point] = folder / f"{len(found):02d}"
            shutil.copytree(lake, found[point])

    with at_each_commit(act):
        do()
    return found


def current_tables(spark: Any, lake: Path) -> dict[str, list[str]]:
    """The rows of the current tables, as commands read them."""
    with reader_of(spark, lake) as reader:
        return {name: sorted(map(str, reader.rows(name))) for name in NOW}


@contextmanager
def reader_of(spark: Any, lake: Path) -> Iterator[LakeReader]:
    """The lake as commands read it: by Spark, or by DuckDB where there is none."""
    if not isinstance(spark, Local):
        yield SparkReader(spark, Lake.open(spark, str(lake)))
        return
    opened = DuckDbLake(str(lake))
    with opened.connection:
        yield DuckDbReader(opened)


def assert_lake_is_sound(lake: Path, expected: dict[str, list[str]]) -> None:
    """The tables are those of an undisturbed lake, every record is there once, and nothing is left of killed audits."""
    tables = {name: rows(lake, name) for name in TABLES}
    found = contents_of(tables)
    for name in expected:
        assert found[name] == expected[name], f"{lake}: {name}"
    assert_every_record_is_in_one_table(lake, tables)
    finished = {row["audit_id"] for row in tables["audits"] if row["status"] == "finished"}
    for name, table in TABLES.items():
        if table.kind != "ledger":
            assert {row["audit_id"] for row in tables[name]} <= finished, name
    assert not [path for path in (lake / "_work").glob("*") if path.is_dir()]
