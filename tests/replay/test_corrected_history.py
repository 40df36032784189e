"""The replay of history in which the state was corrected."""

from __future__ import annotations

import json

import pytest

from kgroups_spark.coordinator import group_snapshots
from kgroups_spark.coordinator.releases import Topics
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.replay.corrections import CorrectedAt, Correction, HistoryReplay
from kgroups_spark.replay.groups import ShardHistory
from kgroups_spark.replay.shard import Night
from kgroups_spark.replay.state import LogState, saved
from kgroups_spark.tables.schemas import LOG_TABLES, arrow_schema
from tests.lake.table_rows import rows_of
from tests.messages.group_record_bytes import KEY, members
from tests.offsets.log_tables import shard_history

NIGHT = Night(1, "4.3", 50, Topics())
REMOVED = Correction("group", "grp", None)


def history_of(value: bytes) -> ShardHistory:
    """The value alone, at offset 3."""
    record = GroupRecordDecoder().decode(KEY, value)
    of_record = {name: getattr(record, name) for name in ("record_type", "record_name", "group_id", "value_version")}
    rows = rows_of("group_records", {"log_offset": 3, **of_record, "value": record.value_json()})
    commits, _, markers, quarantine = (arrow_schema(name).empty_table() for name in LOG_TABLES)
    return shard_history((commits, rows, markers, quarantine))


def replay_of(history: ShardHistory, *corrections: CorrectedAt) -> tuple[HistoryReplay, list[tuple[int, str, bool]]]:
    """A replay that has ended, and the versions of members that it reported."""
    replay = HistoryReplay(NIGHT, LogState(), history, corrections=corrections)
    reported = [row for name, rows in replay.changes() if name == "group_member_versions" for row in rows.to_pylist()]
    return replay, sorted((row["log_offset"], row["member_id"], row["is_removed"]) for row in reported)


def versions(history: ShardHistory, correction: Correction, log_offset: int) -> list[tuple[int, str, bool]]:
    return replay_of(history, CorrectedAt(log_offset, [correction]))[1]


def saved_group(history: ShardHistory) -> str:
    """The group as the state has it after the history."""
    (row,) = (row for row in saved(replay_of(history)[0].state).to_pylist() if row["entry_type"] == "group")
    return str(row["payload"])


@pytest.mark.parametrize("block_at_bytes", [1, 1 << 20], ids=["members on demand", "members in the record"])
def test_members_of_a_group_that_is_corrected_away_leave_versions(
    block_at_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_snapshots, "BLOCK_AT_BYTES", block_at_bytes)
    joined, gone = (
        [(at, f"m{number}", is_removed) for number in range(3)] for at, is_removed in ((3, False), (8, True))
    )
    assert versions(history_of(members(3)), REMOVED, 9) == joined + gone
    # In the place of those that the record left.
    assert versions(history_of(members(3)), REMOVED, 4) == [(3, member_id, True) for _, member_id, _ in gone]


def test_a_corrected_group_leaves_versions_of_its_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_snapshots, "BLOCK_AT_BYTES", 1)
    two = json.loads(saved_group(history_of(members(2))))
    two["group"]["value"]["members"][1]["clientId"] = "another"
    right = Correction("group", "grp", json.dumps(two))
    assert versions(history_of(members(3)), right, 9) == [
        *((3, f"m{number}", False) for number in range(3)),
        (8, "m1", False),
        (8, "m2", True),
    ]
