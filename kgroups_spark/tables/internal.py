"""Tables that only the audit itself reads; their form is no contract."""

from __future__ import annotations

import pyarrow as pa

from kgroups_spark.tables.columns import AUDIT_ID, BIGINT, INT, OFFSETS_PARTITION, SMALLINT, STRING, column, required
from kgroups_spark.tables.current import OFFSET_EXPIRY

PREVIOUS_OFFSET_EXPIRY = pa.schema(
    [*OFFSET_EXPIRY, required("decided_by", BIGINT, "The audit that decided it, the one before; audit_id kept it")]
)

# The columns of an entry that is one offset, null in others: as in `offset_commits`, times in ms.
STATE_OFFSET = (
    column("topic", STRING, "Topic"),
    column("partition", INT, "Its partition"),
    column("record_offset", BIGINT, "Log offset of the record that committed it"),
    column("record_type", SMALLINT, "Type of this record"),
    column("value_version", SMALLINT, "Version of its value; null: tombstone that is pending"),
    column("producer_id", BIGINT, "Producer whose transaction holds it; null: it is committed"),
    column("producer_epoch", SMALLINT, "Epoch of the producer that wrote it; null: none"),
    column("committed_offset", BIGINT, "The offset; null: tombstone that is pending"),
    column("leader_epoch", INT, "Its leader epoch; null: none"),
    column("metadata", STRING, "Its metadata; null: tombstone that is pending"),
    column("commit_timestamp", BIGINT, "When it was committed, ms; null: none"),
    column("expire_timestamp", BIGINT, "When it expires, ms, as old clients said; null: they did not"),
    column("topic_id", STRING, "Topic id; null: none"),
)

COORDINATOR_STATE = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        required("entry_type", STRING, "The kind of the entry; only the coordinator's save and load know"),
        column("group_id", STRING, "Group; null: the entry is about no group"),
        required("payload", STRING, "JSON text; of an offset empty"),
        *STATE_OFFSET,
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
        *STATE_OFFSET,
    ]
)
