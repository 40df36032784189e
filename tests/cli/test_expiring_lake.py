"""`kgroups expiring` over a lake: the rows that the engine chooses are those that the rules choose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.cli.main import main
from kgroups_spark.cli.output import plain_value
from kgroups_spark.sql import reader
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.words import LAST_MS, parse_duration, to_datetime
from tests.chosen import some_of
from tests.cli.written_lake import ledger, write_lake
from tests.expiry import twin_cases
from tests.expiry.twin_cases import NOW, R, as_if_empty, generated, twin_rows

Row = dict[str, Any]


TIMES = ("as_of", "commit_timestamp", "expire_timestamp", "current_state_timestamp")
TIMES += ("base_timestamp", "expires_at", "expires_at_if_empty")


def as_stored(row: Row) -> Row:
    """A row of the twin as it is in a table."""
    stored = row | {name: to_datetime(row[name]) for name in TIMES if row.get(name) is not None}
    if stored.get("topology") is not None:
        stored["topology"] = json.dumps(stored["topology"])
    if stored.get("resolved_regex_topics") is not None:
        stored["resolved_regex_topics"] = list(stored["resolved_regex_topics"].items())
    return stored


@pytest.fixture(scope="module")
def current() -> dict[str, list[Row]]:
    """Current tables, with times in ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twin_cases, "GROUPS_PER_RELEASE", 200)
        return generated("4.3")[0]


def decided(current: dict[str, list[Row]], retention_ms: int) -> list[Row]:
    """The twin's decisions on offsets, with type and state of their groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twin_cases, "R", retention_ms)
        offsets, _ = twin_rows(current, set(), "4.3")
    groups = {(row["offsets_partition"], row["group_id"]): row for row in current["groups"]}
    of_group = [groups.get((row["offsets_partition"], row["group_id"]), {}) for row in offsets]
    return [
        as_stored(row) | {name: group.get(name) for name in ("group_type", "state")}
        for row, group in zip(offsets, of_group, strict=True)
    ]


@pytest.fixture(scope="module")
def location(current: dict[str, list[Row]], tmp_path_factory: pytest.TempPathFactory) -> str:
    def table(name: str, its: list[Row]) -> pa.Table:
        schema = arrow_schema(name)
        zeros = {"metadata": "", "record_type": 1, "is_orphan": False, "is_simple": False, "member_count": 0}
        zeros |= {"audit_id": 1, "member_id": "m", "producer_id": 1, "log_offset": 1, "committed_offset": 1}
        filled = [{field: row.get(field, zeros.get(field)) for field in schema.names} for row in its]
        return pa.Table.from_pylist(filled, schema)

    tables = {name: table(name, [as_stored(row) for row in its]) for name, its in current.items()}
    tables["offset_expiry"] = table("offset_expiry", decided(current, R))
    tables["audits"] = ledger({"as_of": to_datetime(NOW), "retention_ms": R, "release_version": "4.3"})
    return write_lake(tmp_path_factory.mktemp("lakes") / "lake", tables)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of rows that became Python objects, by query."""
    counts: list[int] = []
    made = reader.to_rows

    def counting(table: pa.Table) -> reader.Rows:
        counts.append(table.num_rows)
        return made(table)

    monkeypatch.setattr(reader, "to_rows", counting)
    yield counts


OPTIONS = [
    f"{offsets} {if_empty} {retention} {within}".split()
    for offsets in ("", "--offsets")
    for if_empty in ("", "--if-empty")
    for retention in ("", "--retention 1d", "--retention 30d")
    for within in ("", "--within 36h", "--within 0ms")
]


@pytest.mark.parametrize("options", some_of(4, *OPTIONS), ids=" ".join)
def test_the_engine_chooses_the_rows_that_the_rules_choose(
    options: list[str], current: dict[str, list[Row]], location: str, loaded: list[int], capsys
) -> None:
    assert main(["expiring", "--lake", location, "--format", "json", *options]) == 0
    out, err = capsys.readouterr()
    printed = [json.loads(line) for line in out.splitlines()]
    expected = in_python(options, current)
    names = ["offsets_partition", "group_id", "retention_ms", "reason", "expires_at", "group_type", "state"]
    names += ["topic", "partition", "decision"] if "--offsets" in options else ["offset_count"]
    assert sorted(map(str, named(printed, names))) == sorted(map(str, named(expected, names)))
    assert [row["expires_at"] for row in printed] == sorted(row["expires_at"] for row in printed)
    assert f" {'would' if '--if-empty' in options else 'will'} expire" in err
    assert (" by 20" in err) is ("--within" in options)
    # The ledger's row, the interval of the brokers' check, and no more rows than are printed.
    assert sum(loaded) <= 2 + len(printed)


def named(rows: list[Row], names: list[str]) -> list[Row]:
    return [{name: plain_value(row[name]) for name in names} for row in rows]


def in_python(options: list[str], current: dict[str, list[Row]]) -> list[Row]:
    """The expected rows, chosen in Python from all rows."""
    asked = "--retention" in options
    rows = decided(current, parse_duration(options[options.index("--retention") + 1]) if asked else R)
    if "--if-empty" in options:
        rows = [as_if_empty(row, to_datetime(NOW)) for row in rows]
    until = to_datetime(LAST_MS)
    if "--within" in options:
        until = to_datetime(NOW + parse_duration(options[options.index("--within") + 1]))
    rows = [row for row in rows if row["expires_at"] is not None and row["expires_at"] <= until]
    return rows if "--offsets" in options else by_group(rows)


def by_group(rows: list[Row]) -> list[Row]:
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["offsets_partition"], row["group_id"]), []).append(row)
    return [
        min(its, key=lambda row: (row["expires_at"], row["reason"])) | {"offset_count": len(its)}
        for its in groups.values()
    ]


@pytest.mark.parametrize("options", ["", "--retention 8d"])
def test_a_duration_after_an_audit_of_the_last_day_ends_with_the_year_9999(
    tmp_path: Path, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = write_lake(tmp_path / "lake", {"audits": ledger({"as_of": to_datetime(LAST_MS)})})
    assert main(["expiring", "--lake", lake, "--within", "7d", *options.split()]) == 0
    assert "will expire by 9999-12-31 23:59:59 UTC" in capsys.readouterr().err
