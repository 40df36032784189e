"""The audit that read a place of the log."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from kgroups_spark.lake.ledger import FINISHED, RUNNING, AuditRow, PartitionProgress, entries_of
from kgroups_spark.replay.shard import ReadBy
from kgroups_spark.tables.rows import table_of_rows
from kgroups_spark.tables.schemas import TABLES, arrow_schema

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def audit(audit_id, *spans, status=FINISHED):
    partitions = tuple(PartitionProgress(0, start, end) for start, end in spans)
    return AuditRow(audit_id, status, "someone", NOW, partitions=partitions)


def read(*ledger):
    """The entries of the finished audits, from a table like the ledger's."""
    rows = [
        {"audit_id": row.audit_id, "retention_ms": 5} | {"partitions": [vars(p) for p in row.partitions]}
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
