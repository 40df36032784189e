"""A partition read again from its start: audits of a lake do what an audit in one process does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.audit.result import AuditSummary
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.coordinator.releases import Topics
from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.lake.lake import Lake
from kgroups_spark.replay.corrections import corrections_of
from kgroups_spark.replay.shard import Night
from kgroups_spark.replay.shard_states import Stored, task_shards
from kgroups_spark.replay.stages import ShardTask
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.sources.segment_log import SegmentLog
from kgroups_spark.tables.definitions import NIGHT, REREAD
from kgroups_spark.tables.schemas import arrow_schema
from tests.chosen import one_of
from tests.nights.cleaned_nights import Nights, write_folder
from tests.nights.forgetful_nights import REPORTED, assert_as_the_log_is, comparable, corrections, three_nights
from tests.nights.lakes import assert_every_record_is_in_one_table, rows
from tests.nights.nights_here import Audited, how_of
from tests.nights.reported_tables import CURRENT, VERSIONS, Row
from tests.nights.stored_replays import replayed

# Those of which the log has records.
PARTITIONS = (0, 1)


def audit(session: Any, lake: Path, segments: Path, **options: Any) -> AuditSummary:
    options = {"offsets_partitions": 50, **options}
    return run_audit(session, AuditOptions(lake=str(lake), segments=[str(segments)], **options))


@pytest.fixture(scope="module")
def in_one_process() -> Audited:
    first, second, third = three_nights()
    nights = Nights(how_of())
    nights.audit(first)
    nights.audit(second, delete_retention_ms=1)
    assert_as_the_log_is(nights, second)
    nights.audit(third)
    assert {row["payload"] is None for row in corrections(nights.audited)} == {True, False}
    return nights.audited


@pytest.mark.parametrize("decided", one_of("while planning", "while reading"))
def test_a_lake_is_read_again_and_corrected(
    session: Any, in_one_process: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decided: str
) -> None:
    if decided == "while reading":  # as of a live log
        monkeypatch.setattr(SegmentLog, "missing_from", lambda self, offset: None)
    first, second, third = three_nights()
    lake, folder = tmp_path / "lake", tmp_path / "log"
    write_folder(folder, first)
    rules = {"release_version": "4.3"}  # as in_one_process has them
    audit(session, lake, folder, **rules)
    write_folder(folder, second)
    summary = audit(session, lake, folder, delete_retention_ms=1, **rules)
    assert [p.records_reread > 0 for p in summary.audit.partitions or ()] == [True, True]
    notes = summary.audit.notes or ()
    assert any("partition 0 was read again from its start: last read" in note for note in notes)
    corrected = "was corrected: compaction removed records before we read them"
    assert f"partition 0 {corrected}: 2 groups gone (c, m); 1 group changed (b)" in notes
    assert f"partition 1 {corrected}: 2 groups changed (c, n); 1 transaction ended" in notes
    write_folder(folder, third)
    last = audit(session, lake, folder, **rules)
    assert not any(p.records_reread for p in last.audit.partitions or ())
    assert not any("corrected" in note for note in last.audit.notes or ())
    for name in REPORTED:
        reported, expected = (
            [row for row in found if row.get("reason") != NIGHT]
            for found in (rows(lake, name), in_one_process.rows(name))
        )
        assert comparable(reported) == comparable(expected), name
    assert_every_record_is_in_one_table(lake)
    files = Lake.open(session, str(lake)).table("checkpoints").files()
    reasons = {tuple(file.bound(which, "reason") for which in ("minValues", "maxValues")) for file in files}
    assert reasons == {(NIGHT, NIGHT), (REREAD, REREAD)}
    assert_history_alone_says_the_same(session, lake)


def assert_history_alone_says_the_same(session: Any, path: Path) -> None:
    """The replay of the history and of what was corrected, from nothing."""
    lake = Lake.open(session, str(path))
    stored = Stored(lake)
    assert {row["offsets_partition"] for name in VERSIONS for row in rows(path, name)} == {*PARTITIONS}
    history, tasks = StoredHistory(stored.tables()), task_shards(dict.fromkeys(PARTITIONS, 1), 1)
    task = ShardTask(Night(3, "4.3", 50, Topics()), dict.fromkeys(PARTITIONS, 0), stored=history)
    for name in (*CURRENT, *VERSIONS):
        found = replayed(stored, tasks, replace(task, tables=frozenset({name})), name)
        assert comparable(found.to_pylist()) == comparable(rows(path, name)), name


def test_only_corrections_of_the_state_are_replayed_the_newest_of_each_entry() -> None:
    def row(audit_id: int, entry_type: str, group_id: str | None, payload: str | None, **other: Any) -> Row:
        fields = {"log_offset": 9, "state_format": STATE_FORMAT, "release_version": "4.3", "rules_version": 1, **other}
        names = ("audit_id", "offsets_partition", "reason", "entry_type", "group_id", "payload")
        return {**dict(zip(names, (audit_id, 0, REREAD, entry_type, group_id, payload), strict=True)), **fields}

    made = [
        row(2, "group", "a", "old"),
        row(3, "group", "a", "new"),
        row(3, "group", "a", "later", log_offset=10),
        row(3, "producer", None, '{"producer_id": 1}'),
        row(2, "producer", None, '{"producer_id": 2}'),
        row(3, "noted", "a", None, state_format=0),
        row(3, "group", "b", "unreadable by now", state_format=0),
    ]
    table = pa.Table.from_pylist(made, schema=arrow_schema("checkpoints"))
    found = {(each.log_offset, *correction) for each in corrections_of(table) for correction in each.corrections}
    assert found == {
        (9, "group", "a", "new"),
        (10, "group", "a", "later"),
        (9, "producer", None, '{"producer_id": 1}'),
        (9, "producer", None, '{"producer_id": 2}'),
        (9, "noted", "a", None),
    }
