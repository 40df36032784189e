"""Nights that are replayed: as columns and groups, and by a shard of objects, record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator import rows as coordinator_rows
from kgroups_spark.coordinator.releases import ReplayFailure, Topics, release
from kgroups_spark.offsets.expiry import DECIDED_BY, HELD_GROUPS, CleanUp, columns_needed
from kgroups_spark.offsets.replay import ALL_SLOTS
from kgroups_spark.replay.rows import event_batches
from kgroups_spark.replay.shard import Night, ShardReplay
from kgroups_spark.replay.state import LogState
from kgroups_spark.tables.rows import table_of_rows
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.offsets.log_tables import history_tables, shard_history
from tests.offsets.random_logs import T
from tests.twin.shard import CommittedRow, EndedTransaction, NoTopics, OpenTransactionRow, PendingRow, ReplayRow, Shard

RELEASES = ("4.4", "4.3", "4.1", "4.0.0", "3.8-java", "3.7-java", "3.9", "2.8", "0.11")
AS_OF = T + 1500
Row = dict[str, Any]


def night(version: str) -> Night:
    return Night(1, version, 50, Topics(), retention_ms=1000, clean_up=CleanUp(AS_OF, 1000, version, 1))


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
    key = ("log_offset",) if name in COMPARED else TABLES[name].key
    return sorted(rows, key=lambda row: [(row[column] is not None, row[column]) for column in key])


def of_objects(rows: Sequence[ReplayRow], version: str) -> dict[str, list[Row]]:
    """The same by the shard of objects."""
    shard = Shard(release(version), 0)
    shard.topics = NoTopics()
    events = shard.record_events(night(version).event_rules(0))
    found: dict[str, list[Row]] = {"quarantine": [], "transaction_markers": []}
    for row in rows:
        if row.kind == "marker":
            ended = shard.end_transaction(row.log_offset, row.log_timestamp, row.producer_id, row.outcome)
            known = ended if row.outcome else EndedTransaction(ended.transaction_start_offset, None, None)
            found["transaction_markers"].append({"log_offset": row.log_offset, **known._asdict()})
            continue
        try:
            shard.replay(row)
        except ReplayFailure as failure:
            found["quarantine"].append({"log_offset": row.log_offset, "detail": str(failure)})
    events.close()
    batches = event_batches([(0, event) for event in events.take()], audit_id=1)
    found["group_events"] = [row for batch in batches for row in batch.to_pylist()]
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
        found[name] = table_of_rows(
            name, kind._fields, [r for r in made if isinstance(r, kind)], audit_id=1
        ).to_pylist()
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


# Only these columns of some tables are compared: the key, and those that the replay knows.
COMPARED = {
    "quarantine": ("log_offset", "detail"),
    "transaction_markers": ("log_offset", "transaction_start_offset", "offset_count", "group_ids"),
}


def assert_as_objects(rows: Sequence[ReplayRow], version: str, ranges=ALL_SLOTS) -> None:
    """All rows of all tables."""
    assert_same(replayed(rows, version, ranges=ranges)[0], of_objects(rows, version))


def assert_same(ours: dict[str, list[Row]], theirs: dict[str, list[Row]]) -> None:
    for name in sorted(ours.keys() | theirs.keys()):
        names = COMPARED.get(name)
        found = [row if names is None else {each: row[each] for each in names} for row in ours.get(name, [])]
        assert found == theirs.get(name, []), name
