"""A lake whose names are hostile to a page, or too long for it."""

from __future__ import annotations

import pyarrow as pa

from tests.report.made_lakes import (
    AS_OF,
    DAY,
    HOSTILE,
    audit_row,
    event_row,
    expiry_row,
    group_row,
    partition_read,
    tables,
)


def hostile_lake(name: str = HOSTILE) -> dict[str, pa.Table]:
    return tables(
        audits=[audit_row([partition_read(end_offset=9, records=9)], notes=[name])],
        groups=[group_row(name), group_row("b" + name)],
        group_versions=[
            {"offsets_partition": 0, "log_offset": 1, "log_timestamp": AS_OF, "is_removed": False}
            | {column: group_row(name)[column] for column in ("group_id", "group_type", "state")}
        ],
        group_records=[
            {"offsets_partition": 0, "log_offset": 1, "log_timestamp": AS_OF, "group_id": name, "record_type": 2}
        ],
        offset_expiry=[expiry_row(name, topic=name)],
        open_transactions=[
            {"offsets_partition": 0, "producer_id": 1, "transactional_id": name, "open_since": AS_OF - DAY}
        ],
        pending_offsets=[{"offsets_partition": 0, "producer_id": 1, "group_id": name, "topic": "t", "log_offset": 2}],
        group_events=[
            event_row("offset_rewound", name, topic=name, offset_before=9, offset_after=4, cause="unknown"),
            event_row("group_removed", name, cause="expired"),
            event_row("group_type_changed", name, value_before="classic", value_after="consumer"),
        ],
        findings=[{"finding": "ghost_member", "severity": "error", "group_id": name, "detail": name}],
        group_traffic=[
            {"offsets_partition": 0, "group_id": name, "hour": AS_OF, "commits": 1, "tombstones": 0}
            | {"transactional_commits": 0, "other_records": 0, "bytes": 9}
        ],
        quarantine=[
            {"offsets_partition": 0, "log_offset": 1, "record_count": 1, "reason": "truncated", "detail": name}
            | {"coordinator_fails": True}
        ],
    )
