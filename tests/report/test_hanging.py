"""The report's transactions hang by Kafka's rule, not by age: as the findings of the last audit have it."""

from __future__ import annotations

from datetime import UTC, datetime

from kgroups_spark.report.figures import query
from tests.lake.table_rows import rows_of as table_rows
from tests.views.arrow_tables import in_duckdb, rows_of

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_old_transaction_hangs_if_the_last_audit_that_looked_found_so() -> None:
    finished = {"status": "finished", "started_at": LONG_AGO}
    looked = [{**finished, "audit_id": each, "rows_added": [("findings", 1)]} for each in (1, 2)]
    maintained = {**finished, "audit_id": 3, "rows_added": []}
    open_ = [
        {"producer_id": producer, "transaction_start_offset": 10 * producer, "open_since": LONG_AGO}
        for producer in (1, 2, 3, 4)
    ]
    found = [
        {"audit_id": 1, "finding": "hanging_transaction", "producer_id": 1, "log_offset": 10},
        {"audit_id": 2, "finding": "hanging_transaction", "producer_id": 2, "log_offset": 20},
        {"audit_id": 2, "finding": "two_open_producers", "producer_id": 3, "log_offset": 30},
        {"audit_id": 2, "finding": "hanging_transaction", "producer_id": 4, "log_offset": 39},
    ]
    tables = {
        "audits": table_rows("audits", *looked, maintained),
        "open_transactions": table_rows("open_transactions", *open_),
        "findings": table_rows("findings", *({**each, "offsets_partition": 0} for each in found)),
    }
    rows = rows_of(in_duckdb(tables), query("open_transactions").replace(";", ""))
    assert {row["producer_id"]: row["is_hanging"] for row in rows} == {1: False, 2: True, 3: False, 4: False}
