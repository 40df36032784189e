"""History as columns and groups gives the rows that a shard of objects gives, record by record."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator import rows as coordinator_rows
from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.coordinator.releases import ReplayFailure, release
from kgroups_spark.offsets.columns import ranges_between
from kgroups_spark.offsets.expiry import DECIDED_BY, HELD_GROUPS, CleanUp, columns_needed
from kgroups_spark.offsets.replay import ALL_SLOTS
from kgroups_spark.replay.rows import event_batches
from kgroups_spark.replay.shard import ShardReplay
from kgroups_spark.replay.stages import no_cycle_collector
from kgroups_spark.replay.state import LogState
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.coordinator.no_topics import NoTopics
from tests.coordinator.replay_row import ReplayRow, replay
from tests.offsets.log_tables import history_tables, shard_history
from tests.offsets.random_logs import BORDERS, random_log
from tests.replay.replayed_shards import AS_OF, RELEASES, night
from tests.twin.offset_metadata import OffsetAndMetadata
from tests.twin.shard import Shard
from tests.twin.shard_rows import CommittedRow, OpenTransactionRow, PendingRow

Row = dict[str, Any]


def replayed(rows: Sequence[ReplayRow], version: str, state: LogState | None = None, ranges=ALL_SLOTS):
    """Rows by table, and the state after them."""
    history = shard_history(history_tables(rows))
    shard = ShardReplay(night(version), state or LogState(), history, ranges)
    found: dict[str, list[Row]] = {}
    for name, table in shard.outputs():
        assert table.schema.names == arrow_schema(name).names
        found.setdefault(name, []).extend(table.to_pylist())
    return {name: in_order(name, of) for name, of in found.items()}, shard.state


def in_order(name: str, rows: Sequence[Row]) -> list[Row]:
    key = TABLES[name].key
    return sorted(rows, key=lambda row: [(row[column] is not None, row[column]) for column in key])


def of_objects(rows: Sequence[ReplayRow], version: str) -> dict[str, list[Row]]:
    """The same by the shard of objects, without markers and failures."""
    shard = Shard(release(version), 0, recording=True)
    shard.topics = NoTopics()
    events = shard.record_events(night(version).event_rules(0))
    for row in rows:
        with suppress(ReplayFailure):
            replay(shard, row)
    events.close()
    reported = [
        row for batch in event_batches([(0, event) for event in events.take()], audit_id=1) for row in batch.to_pylist()
    ]
    found: dict[str, list[Row]] = {"group_events": reported}
    changes = shard.take_changes()
    for name, kind, made in (
        ("group_versions", coordinator_rows.GroupRow, changes),
        ("group_member_versions", coordinator_rows.MemberRow, changes),
        ("groups", coordinator_rows.GroupRow, shard.group_rows(50)),
        ("group_members", coordinator_rows.MemberRow, shard.member_rows()),
        ("committed_offsets", CommittedRow, shard.committed_rows()),
        ("pending_offsets", PendingRow, shard.pending_rows()),
        ("open_transactions", OpenTransactionRow, map(judged, shard.open_transaction_rows())),
    ):
        found[name] = table_batch(name, kind._fields, [r for r in made if isinstance(r, kind)], audit_id=1).to_pylist()
    found |= decided(found, shard.groups_in_transactions(), version)
    return {name: in_order(name, of) for name, of in found.items() if of}


def judged(row: OpenTransactionRow) -> OpenTransactionRow:
    """Open for more than 15 minutes."""
    since = row.open_since
    return row._replace(is_hanging=None if since is None else since < AS_OF - 15 * 60_000)


def decided(found: dict[str, list[Row]], held: set[str], version: str) -> dict[str, list[Row]]:
    """The decisions of a clean-up, made over the whole tables at once."""
    rows = {**found, HELD_GROUPS: [{"offsets_partition": 0, "group_id": group_id} for group_id in held]}
    tables = {name: pa.Table.from_pylist(rows[name], columns_needed(name)) for name in DECIDED_BY}
    return {name: table.to_pylist() for name, table in CleanUp(AS_OF, 1000, version, 1).decided(tables)}


def assert_same(ours: dict[str, list[Row]], theirs: dict[str, list[Row]]) -> None:
    for name in sorted(ours.keys() | theirs.keys() - {"transaction_markers", "quarantine"}):
        if name not in ("transaction_markers", "quarantine"):
            assert ours.get(name, []) == theirs.get(name, []), name


def test_columns_and_groups_equal_objects(chosen):
    for version in chosen.some(RELEASES, 1):
        for _ in range(60 if chosen.every else 6):
            seed = chosen.random.randrange(1 << 32)
            log, borders = random_log(seed), chosen.one(BORDERS)
            try:
                assert_same(replayed(log, version, ranges=ranges_between(borders))[0], of_objects(log, version))
            except AssertionError as error:
                raise AssertionError(f"release {version}, seed {seed}, {borders}") from error


def test_a_tombstone_of_the_last_pending_offset_is_an_act_of_its_own_batch():
    """Also if the batch before it has the same time (Scala coordinator)."""

    def record(log_offset, topic, commit=None, **of_transaction):
        facts = {"record_type": 1, "group_id": "a", "topic": topic, "partition": 0, "batch_offset": log_offset}
        return ReplayRow(log_offset, 1_700_000_000_000, "offset_commit", commit=commit, **facts, **of_transaction)

    in_transaction = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    never_due = OffsetAndMetadata(1, None, "", 1_700_000_000_000, 1 << 50, None, 1)
    log = [
        record(0, "u", never_due),
        record(1, "t", OffsetAndMetadata(5, None, "", 1_600_000_000_000, None, None, 0), **in_transaction),
        record(2, "u"),
        record(3, "t", **in_transaction),
    ]
    found, _ = replayed(log, "2.8")
    assert_same(found, of_objects(log, "2.8"))
    assert [(row["event"], row["cause"]) for row in found["group_events"]][-1] == ("group_removed", "expired")


def test_a_replayed_shard_is_freed_without_the_cycle_collector(chosen):
    """Tasks run without it: reference cycles would stay until the last shard of the task."""
    log = random_log(chosen.random.randrange(1 << 32), records=200)
    gc.collect()
    with no_cycle_collector():
        replayed(log, chosen.one(RELEASES))
        assert [each for each in gc.get_objects() if type(each) in (Groups, ShardReplay)] == []
