"""Tables that only the audit itself reads; their form is no contract."""

from __future__ import annotations

from pyspark.sql.types import StructType

from kgroups_spark.tables.columns import AUDIT_ID, BIGINT, OFFSETS_PARTITION, STRING, column, required

COORDINATOR_STATE = StructType(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        required("entry_type", STRING, "What the payload is; only the coordinator's save and load know"),
        column("group_id", STRING, "Group; null: the entry is about no group"),
        required("payload", STRING, "JSON text"),
    ]
)

STATE_CORRECTIONS = StructType(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        required("log_offset", BIGINT, "A rebuild applies the correction before this place in the log"),
        required("entry_type", STRING, "What the payload is; only the coordinator's save and load know"),
        column("group_id", STRING, "Group; null: the entry is about no group"),
        required("payload", STRING, "JSON text"),
    ]
)
