"""Lakes of logs of the share and the transaction coordinator."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.lake.table_rows import rows_of as table_rows

SHARE, TRANSACTION = "__share_group_state", "__transaction_state"
OF_LOG = {SHARE: ("share_partitions", "share_batches"), TRANSACTION: ("transactional_ids",)}
# Columns that the log alone does not give: listings and names of topics, and which audit.
ELSEWHERE = {"audit_id", "topic", "init_state", "known"}


def lake_of(*nights, facts=()):
    """The tables of the lake that has these partitions."""
    tables = {"audits": table_rows("audits", {"audit_id": 1, "status": "finished", "started_at": datetime.now(UTC)})}
    rows = {"cluster_facts": [fact._asdict() | {"audit_id": 1} for fact in facts]}
    for each in nights:
        for name, some in each.tables.items():
            rows.setdefault(name, []).extend(some)
        saved = [row._asdict() | {"log": each.topic, "state_partition": each.partition} for row in each.state]
        rows.setdefault("state_log_state", []).extend(saved)
    return tables | {name: table_rows(name, *some) for name, some in rows.items()}


def in_order(rows):
    return sorted(repr({k: v for k, v in row.items() if k not in ELSEWHERE}) for row in rows)
