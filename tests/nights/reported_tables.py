"""The tables of audits as rows of Python: those of a lake, and those of a replay without one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa

from kgroups_spark.replay.counts import TopicNames, sightings
from kgroups_spark.replay.state import ENTRIES
from kgroups_spark.tables.definitions import NIGHT
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES

Row = dict[str, Any]

CURRENT = ("groups", "group_members", "committed_offsets", "pending_offsets", "open_transactions")
RECORD_TABLES = ("offset_commits", "group_records", "transaction_markers", "quarantine")
VERSIONS = ("group_versions", "group_member_versions")


def traffic_of(rows: list[Row]) -> dict[tuple[int, str, Any], list[int]]:
    """Counts of `group_traffic` by offsets partition, group and hour, of all audits together."""
    sums: dict[tuple[int, str, Any], list[int]] = {}
    counts = ("commits", "tombstones", "transactional_commits", "other_records", "bytes")
    for row in rows:
        key = (row["offsets_partition"], row["group_id"], row["hour"])
        before = sums.get(key, [0] * len(counts))
        sums[key] = [total + row[name] for total, name in zip(before, counts, strict=True)]
    return sums


class Reported:
    """Tables of an audit; subclasses define their source."""

    def table(self, name: str) -> pa.Table:
        """The rows of a table, as its readers get them."""
        raise NotImplementedError

    def record_counts(self) -> Counter[tuple[int, int | None]]:
        """The number of records read, by type and value version."""
        raise NotImplementedError

    def tables(self) -> dict[str, pa.Table]:
        """Every table by its name."""
        return {name: self.table(name) for name in TABLES}

    def rows(self, name: str) -> list[Row]:
        """Rows of a table by its key, without audit_id. A transaction hangs as of a moment, which nights differ in."""
        table = self.table(name)
        return rows_of(name, table.drop_columns("is_hanging") if name == "open_transactions" else table)

    def traffic(self) -> dict[tuple[int, str, Any], list[int]]:
        """The counts of `traffic_of`."""
        return traffic_of(self.rows("group_traffic"))

    def state(self) -> list[str]:
        """The saved state, with everything unordered sorted."""
        entries = [{name: row[name] for name in ENTRIES.names} for row in self.rows(NIGHT)]
        payloads = (entry["payload"] and unordered(json.loads(entry["payload"])) for entry in entries)
        return sorted(str({**entry, "payload": of}) for entry, of in zip(entries, payloads, strict=True))

    def topic_names(self) -> TopicNames:
        """The names of topic ids."""
        names = TopicNames()
        names.merge(sightings(self.table("topics").to_pylist()))
        return names

    def record_count(self, offsets_partition: int | None = None) -> int:
        """The number of records in the four tables that together are the log."""
        return sum(
            row.get("record_count", 1)
            for name in RECORD_TABLES
            for row in self.rows(name)
            if offsets_partition in (None, row["offsets_partition"])
        )


def rows_of(name: str, table: pa.Table) -> list[Row]:
    """A table's rows by its key, without audit_id."""
    rows: list[Row] = table.drop_columns("audit_id").to_pylist(maps_as_pydicts="strict")
    key = [column for column in TABLES[stored_as(name)].key if column != "audit_id"]
    return sorted(rows, key=lambda row: [(row[column] is not None, row[column]) for column in key])


def stored_as(name: str) -> str:
    """The table with such rows; NIGHT means the newest state of a night."""
    return CHECKPOINTS if name == NIGHT else name


def unordered(value: Any) -> Any:
    """The value with its lists sorted: members, offsets and topics have no order."""
    if isinstance(value, dict):
        return {key: unordered(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((unordered(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value
