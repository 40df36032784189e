"""Tables that only kgroups itself reads; their form is not part of the contract."""

from __future__ import annotations

import pyarrow as pa

from kgroups_spark.tables.columns import AUDIT_ID, BIGINT, INT, OFFSETS_PARTITION, SMALLINT, STRING, column, required
from kgroups_spark.tables.current import OFFSET_EXPIRY

PREVIOUS_OFFSET_EXPIRY = pa.schema(
    [*OFFSET_EXPIRY, required("decided_by", BIGINT, "The previous audit, which decided it; audit_id kept it")]
)

# The columns of an entry that is one offset, null in other entries: as in `offset_commits`, with times in ms.
STATE_OFFSET = (
    column("topic", STRING, "Topic"),
    column("partition", INT, "Its partition"),
    column("record_offset", BIGINT, "Log offset of the record that committed it"),
    column("record_type", SMALLINT, "Type of this record"),
    column("value_version", SMALLINT, "Version of its value; null: pending tombstone"),
    column("producer_id", BIGINT, "Producer whose transaction holds it; null: it is committed"),
    column("producer_epoch", SMALLINT, "Epoch of the producer that wrote it; null: none"),
    column("committed_offset", BIGINT, "The offset; null: pending tombstone"),
    column("leader_epoch", INT, "Its leader epoch; null: none"),
    column("metadata", STRING, "Its metadata; null: pending tombstone"),
    column("commit_timestamp", BIGINT, "When it was committed, ms; null: none"),
    column("expire_timestamp", BIGINT, "When it expires, ms, set by old clients; null: not set"),
    column("topic_id", STRING, "Topic id; null: none"),
)

# The reason why a state was saved. night: the next audit goes on from it. keep: `maintain --keep` has reduced the
# history below it, and a replay begins with it. reread: a partition was read again, and these entries of its state
# were corrected from its log.
NIGHT, KEEP, REREAD = "night", "keep", "reread"

# States of shards, each at a log offset.
CHECKPOINTS = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        column(
            "log",
            STRING,
            "The other log of the partition, of which only the log offset is saved; null: __consumer_offsets",
        ),
        required("log_offset", BIGINT, "The state is that before the records from this log offset on"),
        required(
            "reason",
            STRING,
            "night: at the end of the audit's log; keep: history below it may be reduced; reread: entries that "
            "differed when the log was read again",
        ),
        required("entry_type", STRING, "The kind of the entry; known only to the coordinator's save and load"),
        column("group_id", STRING, "Group; null: the entry does not concern a group"),
        column("payload", STRING, "JSON text; null: the entry is an offset, or was removed"),
        required("state_format", INT, "Form of the entry"),
        required("release_version", STRING, "Kafka release by whose rules it was made"),
        required("rules_version", INT, "Version of these rules"),
        *STATE_OFFSET,
    ]
)
