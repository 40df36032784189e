"""Rows of `quarantine` for records that are in other tables and at which a coordinator's load fails."""

from __future__ import annotations

MISREAD_COLUMNS = (
    "log_offset",
    "log_timestamp",
    "record_type",
    "record_name",
    "group_id",
    "value_version",
    "producer_id",
    "detail",
)
# Values that all these rows of quarantine share: the record and its bytes are in its own table.
LOAD_WOULD_FAIL = {
    "record_count": 0,
    "is_transactional": None,
    "topic": None,
    "partition": None,
    "reason": "load_would_fail",
    "coordinator_fails": True,
    "file": None,
    "file_position": None,
    "raw_key": None,
    "raw_value": None,
    "resolved_by": None,
}
