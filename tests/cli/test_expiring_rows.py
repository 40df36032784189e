"""`kgroups expiring` prints rows of decisions; the decisions themselves are tested in tests/expiry."""

from __future__ import annotations

import csv
from datetime import timedelta
from typing import Any

import pytest

from kgroups_spark.cli.expiring import GROUPS_SCREEN, OFFSETS_SCREEN, expires_in
from kgroups_spark.cli.main import main
from kgroups_spark.tables.schemas import TABLES
from tests.cli.written_lake import AS_OF, ledger, write_lake
from tests.lake.table_rows import rows_of

HOUR = timedelta(hours=1)
RETENTION = 168 * HOUR


def decision(group_id: str, partition: int = 0, *, expires_at: Any = None, **more: Any) -> dict[str, Any]:
    base = {"base": "commit_timestamp", "base_timestamp": expires_at and expires_at - RETENTION}
    decided = {"decision": "keep", "reason": "within_retention", "expires_at_if_empty": expires_at}
    slot = {"offsets_partition": 3, "group_id": group_id, "topic": "orders", "partition": partition}
    judged = {"as_of": AS_OF, "retention_ms": RETENTION // timedelta(milliseconds=1), "expires_at": expires_at}
    return slot | judged | base | decided | more


DUE = decision("due", expires_at=AS_OF - HOUR, decision="expire", reason="retention_passed")
SOON = decision("soon", expires_at=AS_OF + 24 * HOUR)
ITS_OWN = {"base": "expire_timestamp", "base_timestamp": AS_OF + 12 * HOUR, "reason": "before_expire_timestamp"}
SOON_TOO = decision("soon", 1, expires_at=AS_OF + 12 * HOUR, **ITS_OWN)
LATE = decision("late", expires_at=AS_OF + 100 * HOUR)
ACTIVE = decision("active", reason="group_active", base=None, expires_at_if_empty=AS_OF + RETENTION)
ELSEWHERE = LATE | {"offsets_partition": 4}
ALL = [ACTIVE, LATE, SOON, SOON_TOO, DUE, ELSEWHERE]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    slots = [{name: row[name] for name in ("offsets_partition", "group_id", "topic", "partition")} for row in ALL]
    places = {(row["offsets_partition"], row["group_id"]): row["reason"] == "group_active" for row in ALL}
    groups = [
        {
            "offsets_partition": number,
            "group_id": group,
            "group_type": "classic",
            "state": "Stable" if active else "Empty",
        }
        for (number, group), active in places.items()
    ]
    tables = {
        "audits": ledger({}),
        "offset_expiry": rows_of("offset_expiry", *ALL),
        "committed_offsets": rows_of("committed_offsets", *slots),
        "groups": rows_of("groups", *groups),
    }
    return write_lake(tmp_path_factory.mktemp("lakes") / "lake", tables)


def printed(lake: str, options: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    assert main(["expiring", "--lake", lake, "--format", "csv", *options.split()]) == 0
    return list(csv.DictReader(capsys.readouterr().out.splitlines()))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", ["due 0", "soon 1", "soon 0", "late 0", "late 0"]),
        ("--within 0s", ["due 0"]),
        ("--within 12h", ["due 0", "soon 1"]),
        ("--until 2020-01-01", []),
        ("--if-empty", ["due 0", "soon 1", "soon 0", "late 0", "late 0", "active 0"]),
        # The client's own time stays.
        ("--retention 1h", ["due 0", "soon 0", "late 0", "late 0", "soon 1"]),
    ],
)
def test_offsets_are_listed_soonest_first(
    lake: str, options: str, found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = printed(lake, f"--offsets {options}", capsys)
    assert [f"{row['group_id']} {row['partition']}" for row in rows] == found


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--if-empty", ("2026-11-23T06:30:00.000Z", "keep", "within_retention")),
        ("--if-empty --retention 1h", ("2026-11-16T07:30:00.000Z", "keep", "within_retention")),
    ],
)
def test_if_empty_gives_time_and_reason_of_the_group_without_members(
    lake: str, options: str, found: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    [row] = [row for row in printed(lake, f"--offsets {options}", capsys) if row["group_id"] == "active"]
    assert (row["expires_at"], row["decision"], row["reason"]) == found


def test_a_group_is_one_row_a_partition_with_its_soonest_expiry_and_its_offset_count(
    lake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("group_id", "offsets_partition", "offset_count", "reason", "expires_at")
    assert [tuple(row[name] for name in names) for row in printed(lake, "", capsys)] == [
        ("due", "3", "1", "retention_passed", "2026-11-16T05:30:00.000Z"),
        ("soon", "3", "2", "before_expire_timestamp", "2026-11-16T18:30:00.000Z"),
        ("late", "3", "1", "within_retention", "2026-11-20T10:30:00.000Z"),
        ("late", "4", "1", "within_retention", "2026-11-20T10:30:00.000Z"),
    ]


def test_the_time_left_is_in_words() -> None:
    hours = (-1, 0, 12, 24, 100)
    assert [expires_in(hour * 3_600_000) for hour in hours] == ["now", "now", "12h", "1d", "4d 4h"]


def test_column_names_are_those_of_the_tables() -> None:
    own = {"offset_count", "expires_in"}
    contract = {*TABLES["offset_expiry"].columns.names, *TABLES["groups"].columns.names}
    assert {column.name for column in (*GROUPS_SCREEN, *OFFSETS_SCREEN)} - own <= contract
