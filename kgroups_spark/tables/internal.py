"""Tables that only the audit itself reads; their form is no contract."""

from __future__ import annotations

import pyarrow as pa

from kgroups_spark.tables.columns import AUDIT_ID, BIGINT, INT, OFFSETS_PARTITION, STRING, column, required
from kgroups_spark.tables.current import OFFSET_EXPIRY

PREVIOUS_OFFSET_EXPIRY = pa.schema(
    [*OFFSET_EXPIRY, required("decided_by", BIGINT, "The audit that decided it, the one before; audit_id kept it")]
)

COORDINATOR_STATE = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        required("entry_type", STRING, "The kind of the payload; only the coordinator's save and load know"),
        column("group_id", STRING, "Group; null: the entry is about no group"),
        required("payload", STRING, "JSON text"),
    ]
)

# What a partition that was read again no longer said (`put`, `remove`: one entry of the saved state each), and whole
# states from which reduced history is replayed on (`baseline`).
STATE_CORRECTIONS = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        required("log_offset", BIGINT, "A rebuild applies it before any record at this log offset or later"),
        required(
            "correction",
            STRING,
            "put: the entry is this now; remove: it is gone; wait: the group is another in the log, but was left as it "
            "is; baseline: part of a state; state_baseline: history of the log entry_type below it may be reduced",
        ),
        required("entry_type", STRING, "The kind of the payload; only the coordinator's save and load know"),
        column("group_id", STRING, "Group; null: the entry is about no group"),
        column("payload", STRING, "JSON text; null: the entry is gone"),
        required("state_format", INT, "Form of the payload"),
        required("release_version", STRING, "Kafka release by whose rules it was made"),
        required("rules_version", INT, "Version of these rules"),
    ]
)
