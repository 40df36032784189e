"""Stored history by references: which rows count, and how often a file is opened for them."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.lake.ledger import FINISHED, RUNNING, AuditRow, PartitionProgress, entries_of
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.lake.replaced import Replaced, ReplacedRange
from kgroups_spark.offsets.columns import SlotRange
from kgroups_spark.replay import stored_history
from kgroups_spark.replay.shard import ReadBy
from kgroups_spark.replay.shard_states import HISTORY, kept_checkpoints, reduced_to, usable_checkpoints
from kgroups_spark.replay.stored_history import (
    Checkpoint,
    PartReader,
    StoredFile,
    StoredHistory,
    StoredShard,
    StoredTable,
    TaskShards,
    part_schema,
)
from kgroups_spark.tables.definitions import KEEP, NIGHT, REREAD
from kgroups_spark.tables.rows import table_of_rows
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.lake.table_rows import rows_of

Row = dict[str, Any]
TASKS = TaskShards(((0, 2), (1, 3)), {0: 10, 1: 10, 2: 10, 3: 10})


class FromFiles:
    """Tables whose rows are in files, which tasks open."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {name: [] for name in HISTORY}

    def put(self, name, *given):
        """One more file."""
        (self.folder / name).mkdir(exist_ok=True)
        part = PartWriter(name, str(self.folder), 1).write([rows_of(name, *given)])
        assert part is not None
        stats = json.loads(part.stats_json)
        bounds = tuple(stats[which]["offsets_partition"] for which in ("minValues", "maxValues"))
        self.files[name].append(StoredFile(part.path, bounds))  # type: ignore[arg-type]

    def table(self, name):
        uri = str(self.folder / name)
        return StoredTable(name, name, uri, tuple(arrow_schema(name).names), tuple(self.files[name]))


Lake = FromFiles


@pytest.fixture
def lake(tmp_path):
    return FromFiles(tmp_path)


def shard(lake, number=0, reader=None, **counting):
    history = StoredHistory({name: lake.table(name) for name in HISTORY}, **counting)
    return StoredShard(history, reader or PartReader((0, 1, 2, 3)), number)


def places(rows):
    return sorted(rows["log_offset"].to_pylist())


def commits(*places_and_audits, **more):
    for log_offset, audit_id in places_and_audits:
        yield {"log_offset": log_offset, "audit_id": audit_id, **more}


def test_only_rows_up_to_the_newest_audit_and_of_the_decoding_audit_count(lake):
    for name in ("offset_commits", "transaction_markers"):
        lake.put(name, *commits((1, 1), (2, 2), (3, 3), (4, 4)))
    found = shard(lake, newest_audit=2, decoded_by=4)
    assert places(found.rows("offset_commits")) == [1, 2, 4]
    assert places(found.rows("transaction_markers")) == [1, 2]
    assert places(shard(lake).rows("transaction_markers")) == [1, 2, 3, 4]
    assert places(shard(lake, number=1).rows("offset_commits")) == []


def test_replaced_rows_do_not_count(lake):
    lake.put("offset_commits", *commits((1, 1), (5, 1), (5, 2)), {"log_offset": 7, "offsets_partition": 2})
    lake.put("checkpoints", *commits((4, 1), (5, 1), (6, 1), (6, 2), reason=REREAD))
    replaced = Replaced((ReplacedRange(0, 5, 9, 2),))
    assert places(shard(lake, replaced=replaced).rows("offset_commits")) == [1, 5]
    assert places(shard(lake, replaced=replaced).rows("checkpoints")) == [4, 5, 6]
    assert places(shard(lake, 2, replaced=replaced).rows("offset_commits")) == [7]


def test_a_replay_begins_at_a_kept_state_and_ends_at_a_horizon(lake):
    lake.put("offset_commits", *commits(*((at, 1) for at in (9, 10, 19, 20))))
    made = [(at, audit) for at in (9, 10, 11, 20, 21) for audit in (3, 5, 7)]
    lake.put("checkpoints", *(each for kind in (REREAD, NIGHT) for each in commits(*made, reason=kind)))
    state = {"reason": KEEP, "entry_type": "group", "payload": "{}"}
    lake.put("checkpoints", *commits((10, 5), **state, group_id="b"), *commits((10, 4), (9, 5), **state))
    found = shard(lake, begins={0: Checkpoint(10, 5)}, horizons={0: 20})
    assert places(found.rows("offset_commits")) == [10, 19]
    corrections = found.rows("checkpoints")
    # An audit corrects the state where its log ends: the correction belongs to the records before.
    places_and_audits = sorted(
        zip(corrections["log_offset"].to_pylist(), corrections["audit_id"].to_pylist(), strict=True)
    )
    assert places_and_audits == [(10, 7), *((at, audit) for at in (11, 20) for audit in (3, 5, 7))]
    assert set(corrections["reason"].to_pylist()) == {REREAD}
    assert [(row["entry_type"], row["group_id"]) for row in found.state().to_pylist()] == [("group", "b")]
    assert found.begins == 10
    assert shard(lake, begins={0: Checkpoint(10, 5)}, horizons={0: 9}).state().num_rows == 0
    assert places(shard(lake, horizons={1: 9}).rows("offset_commits")) == []


def test_chosen_groups_select_their_records_and_rows_without_a_group(lake):
    for name in ("offset_commits", "group_records"):
        lake.put(name, *({"log_offset": at, "group_id": group} for at, group in enumerate("abc")))
    lake.put(
        "checkpoints",
        *({"log_offset": at, "group_id": g, "reason": REREAD} for at, g in enumerate(("a", "b", None))),
    )
    lake.put("quarantine", {"log_offset": 9})
    found = shard(lake, groups={0: frozenset("bc")})
    assert places(found.rows("offset_commits")) == places(found.rows("group_records")) == [1, 2]
    assert places(found.rows("checkpoints")) == [1, 2]
    assert places(found.rows("quarantine")) == [9]
    assert places(shard(lake, groups={1: frozenset("b")}).rows("offset_commits")) == []


def test_history_has_only_quarantined_records_that_still_do_not_decode(lake):
    records = [
        {"log_offset": at, "record_count": count, "resolved_by": by}
        for at, count, by in ((1, 1, None), (2, 1, 3), (4, 1, None), (4, 0, None))
    ]
    lake.put("quarantine", *records)
    found = shard(lake, decoded={0: np.array([4])})
    assert places(found.history({}).quarantine) == [1, 4]
    assert places(found.rows("quarantine")) == [1, 2, 4, 4]


def test_a_small_file_is_opened_once_for_all_shards_of_a_task(tmp_path):
    lake = FromFiles(tmp_path)
    for night in range(4):
        lake.put("offset_commits", *({"offsets_partition": number, "log_offset": night} for number in range(4)))
    lake.put("offset_commits", {"offsets_partition": 3, "log_offset": 9})
    opened = Counter()
    dataset_of = stored_history.dataset_of

    def counted(name, uri, paths, **more):
        opened.update(paths)
        return dataset_of(name, uri, paths, **more)

    with mock.patch.object(stored_history, "dataset_of", counted):
        (reader,) = TASKS.readers((0, 2))
        assert [places(shard(lake, number, reader).rows("offset_commits")) for number in (0, 2)] == [[0, 1, 2, 3]] * 2
        # The fifth has no row of this task.
        assert opened == {file.path: 1 for file in lake.files["offset_commits"][:4]}
        for reader in TASKS._replace(at_once=10).readers((1, 3)):
            shard(lake, reader.shards[0], reader).rows("offset_commits")
    assert opened == {file.path: 3 for file in lake.files["offset_commits"][:4]} | {
        lake.files["offset_commits"][4].path: 1
    }


def test_a_large_shard_is_folded_by_ranges_of_groups(lake):
    lake.put("offset_commits", *({"log_offset": at, "group_id": group} for at, group in enumerate("aabbccdd")))
    found = shard(lake, reader=next(TASKS._replace(at_once=4).readers((0, 2))))
    ranges = found.ranges()
    assert [places(found.rows("offset_commits", groups)) for groups in ranges] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(shard(lake).ranges()) == 1


def test_a_replay_starts_from_the_newest_kept_state_of_todays_rules():
    ours = {"release_version": "4.3", "rules_version": RULES_VERSION, "state_format": STATE_FORMAT}
    given = (
        (0, 3, 10, {}),
        (0, 5, 20, {}),
        (1, 4, 30, {"release_version": "4.2"}),
        (2, 4, 40, {"rules_version": 0}),
        (3, 4, 50, {"state_format": 0}),
        (4, 4, 60, {}),
        (4, 5, 60, {"release_version": "4.2"}),
    )
    rows = [
        {"reason": KEEP, "offsets_partition": p, "audit_id": audit_id, "log_offset": at, **ours, **more}
        for p, audit_id, at, more in given
    ]
    reread = {"reason": REREAD, "offsets_partition": 0, "audit_id": 9, "log_offset": 90, **ours}
    night, another_log = {**reread, "reason": NIGHT}, {**reread, "reason": KEEP, "log": "__transaction_state"}
    offsets = [{**row, "entry_type": "offset", "record_offset": 7} for row in rows]
    table = rows_of("checkpoints", *rows, *rows, *offsets, reread, night, another_log)

    class Lake:
        def rows(self, name, *, columns, conditions):
            found = table
            for condition in conditions:
                found = found.filter(condition.of(pc.field(condition.column)))
            assert not len(found.filter(pc.field("record_offset").is_valid())), (
                "no more than the rows that are no offsets"
            )
            return found.select(columns)

    places_found = kept_checkpoints(Lake())
    assert places_found.num_rows == len(given)
    assert usable_checkpoints(places_found, "4.3") == {0: Checkpoint(20, 5)}
    of_groups = {(None, number): at for number, at in enumerate((20, 30, 40, 50, 60))}
    assert reduced_to(Lake()) == of_groups | {("__transaction_state", 0): 90}


# Files of tables as others wrote them.
NAME = "committed_offsets"
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def table(name, folder, *files):
    found = tuple(StoredFile(f"{file}.parquet", None) for file in files)
    return StoredTable(name, name, str(folder), tuple(part_schema(name).names), found)


def reader(*shards):
    (found,) = TaskShards((shards,), dict.fromkeys(shards, 400)).readers(shards)
    return found


@pytest.mark.parametrize("by_spark", [False, True])
def test_columns_are_those_of_the_table(tmp_path, by_spark):
    """Spark may write times in 96 bits."""
    rows = rows_of(NAME, {"offsets_partition": 3, "group_id": "g", "commit_timestamp": THEN, "value_version": 4})
    pq.write_table(rows, tmp_path / "part.parquet", use_deprecated_int96_timestamps=by_spark)
    read = reader(3).rows(table(NAME, tmp_path, "part"), 3)
    assert read.schema == part_schema(NAME)
    assert [(row["commit_timestamp"], row["value_version"]) for row in read.to_pylist()] == [(THEN, 4)]


def test_commits_are_folded_by_ranges_of_groups(tmp_path, monkeypatch):
    """Ten parts, each with a commit of 40 groups in row groups that end with the same four groups."""
    monkeypatch.setattr(stored_history, "COMMITS_AT_ONCE", 40)
    name, commits = "offset_commits", [{"offsets_partition": 3, "group_id": f"g{number:02}"} for number in range(40)]
    for part in range(10):
        pq.write_table(rows_of(name, *commits), tmp_path / f"{part}.parquet", row_group_size=10)
    parts, reads = table(name, tmp_path, *map(str, range(10))), reader(3, 4)
    ranges = reads.ranges(parts, 3)
    assert [len(reads.rows(parts, 3, each)) for each in ranges] == [40] * 10
    assert [len(reads.rows(parts, number)) for number in (3, 4)] == [400, 0]
    assert reads.ranges(parts, 4) == [SlotRange()]


def test_ranges_end_where_row_groups_begin(tmp_path):
    """Row groups have three rows. No row group of the first two logs has groups on both sides of c."""
    name = "offset_commits"

    def ranges(**parts):
        for part, groups in parts.items():
            pq.write_table(
                rows_of(name, *({"group_id": g} for g in groups)), tmp_path / f"{part}.parquet", row_group_size=3
            )
        commits = table(name, tmp_path, *parts)
        reads = next(TaskShards(((0,),), {0: 100}, at_once=10).readers((0,)))
        found = [sorted(reads.rows(commits, 0, each)["group_id"].to_pylist()) for each in reads.ranges(commits, 0)]
        return ["".join(groups) for groups in found], {each.group_id: rows for each, rows in commits.sizes(0).items()}

    assert ranges(a="aabcddefg", b="abbddegg") == (["aaabbb", "cddddeef", "ggg"], {"a": 6, "c": 11})
    assert ranges(c="aabcddeff", d="abbcdeff") == (["aaabbb", "ccdddee", "ffff"], {"a": 6, "c": 11})
    assert ranges(e="aabcddefg", f="abbddegg", g="adg") == (["aaaabbbc", "dddddeef", "gggg"], {"a": 20})


def test_a_large_shard_is_read_by_large_ranges_and_folded_by_small_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_history, "COMMITS_AT_ONCE", 3)
    name, rows = (
        "offset_commits",
        [{"group_id": group, "partition": at % 4} for at, group in enumerate("aabbbbcccdddddddd")],
    )
    pq.write_table(rows_of(name, *rows), tmp_path / "0.parquet")
    parts, reads = table(name, tmp_path, "0"), next(TaskShards(((0,),), {0: len(rows)}, at_once=8).readers((0,)))
    for _ in range(2):
        found = [reads.rows(parts, 0, each)["group_id"].to_pylist() for each in reads.ranges(parts, 0)]
        assert sorted(group for some in found for group in some) == sorted(row["group_id"] for row in rows)
        assert max(map(len, found)) <= 3
    assert len(reads._large) > 1


@pytest.mark.parametrize("others", [0, 9])
def test_a_large_shard_may_have_no_commits(tmp_path, others):
    """Its records are all of groups, or rewritten after an unfinished audit. Row groups may have rows of others."""
    rows = [{"offsets_partition": 2 * (n % 2), "group_id": "g"} for n in range(others)]
    pq.write_table(rows_of("offset_commits", *rows), tmp_path / "0.parquet")
    commits = table("offset_commits", tmp_path, *["0"] * bool(others))
    (reads,) = TaskShards(((1,),), {1: 9}, at_once=8).readers((1,))
    assert [reads.rows(commits, 1, each).num_rows for each in reads.ranges(commits, 1)] == [0]


# The audit that read a place of the log.
NOW = datetime(2026, 11, 20, tzinfo=UTC)


def audit(audit_id, *spans, status=FINISHED):
    partitions = tuple(PartitionProgress(0, start, end) for start, end in spans)
    return AuditRow(audit_id, status, "someone", NOW, partitions=partitions)


def read(*ledger):
    """The entries of the finished audits, from a table like the ledger's."""
    rows = [
        {"audit_id": row.audit_id, "retention_ms": 5} | {"partitions": [p._asdict() for p in row.partitions]}
        for row in ledger
        if row.status == FINISHED
    ]
    schema = pa.schema([arrow_schema("audits").field(name) for name in ("audit_id", "retention_ms", "partitions")])
    return entries_of(pa.Table.from_pylist(rows, schema))


def audit_ids(read_by, *places):
    """The audit ids of places; a place is (log_offset, group_id, log_timestamp)."""
    columns = ("log_offset", "group_id", "log_timestamp")
    others = dict.fromkeys(TABLES["group_versions"].schema.names) | {"audit_id": 9, "offsets_partition": 0}
    constants = {name: value for name, value in others.items() if name not in columns}
    batch = table_of_rows("group_versions", columns, places, **constants)
    return read_by.with_audit_ids(batch).column("audit_id").to_pylist()


def test_a_place_belongs_to_the_finished_audit_that_read_it():
    ledger = [audit(4, (25, 30)), audit(1, (0, 10)), audit(2, (10, 10)), audit(3, (12, 20), status=RUNNING)]
    ledger += [audit(3, (12, 20))]
    places = [(offset, "g", 5) for offset in (0, 9, 10, 12, 19, 25, 29)]
    # Offset 10 was gone when audit 3 came: what is there was made by what it read next.
    assert audit_ids(ReadBy.of(read(*ledger)), *places) == [1, 1, 3, 3, 3, 4, 4]
