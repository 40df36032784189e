"""The tables that are only ever appended to.

`offset_commits`, `group_records`, `transaction_markers` and `quarantine` together are the log: every record read
stands in exactly one of them. The version tables hold what they made of groups and members, `group_traffic` counts.
`topic_offsets` is not of the log: each audit of a live cluster asked the brokers.
"""

from __future__ import annotations

import pyarrow as pa

from kgroups_spark.tables.columns import (
    AUDIT_ID,
    BIGINT,
    BOOLEAN,
    INT,
    OFFSETS_PARTITION,
    PLACE_IN_LOG,
    RAW_KEY_AND_VALUE,
    SMALLINT,
    STRING,
    TIMESTAMP,
    WHERE_IT_STANDS,
    array,
    column,
    nullable,
    required,
)
from kgroups_spark.tables.current import GROUP_COLUMNS, GROUPS, MEMBER_COLUMNS

# Which records came in one batch: a coordinator writes an operation in one, and Kafka's cleaner keeps batches apart.
OFFSET_DELTA = column(
    "offset_delta",
    INT,
    "log_offset minus its batch's base offset; null: message format 0 or 1, out of quarantine, or read before layout 9",
)

OFFSET_COMMITS = pa.schema(
    [
        *PLACE_IN_LOG,
        OFFSET_DELTA,
        required("group_id", STRING, "Group"),
        required("topic", STRING, "Topic"),
        required("partition", INT, "Partition of the topic"),
        column("committed_offset", BIGINT, "Offset that the group committed; null: tombstone"),
        column("leader_epoch", INT, "Leader epoch of the record before it; null: not given"),
        column("metadata", STRING, "Text the client left with it, '' is normal; null: tombstone"),
        column(
            "commit_timestamp",
            TIMESTAMP,
            "Time of the commit; null: tombstone, none, or one that no TIMESTAMP can hold",
        ),
        column("expire_timestamp", TIMESTAMP, "When it will expire (clients before 2.1); null: not given"),
        column("topic_id", STRING, "Topic id; null: not logged"),
        required("record_type", SMALLINT, "Type of the record: 0 or 1"),
        column("value_version", SMALLINT, "Version of the value; null: tombstone"),
        column("producer_id", BIGINT, "Producer; null: none"),
        column("producer_epoch", SMALLINT, "Producer epoch; null: none"),
        required("is_transactional", BOOLEAN, "The record is part of a transaction"),
        column(
            "outcome",
            STRING,
            "committed or aborted; null: no transaction, or its marker lies outside the range that wrote the row "
            "(view offset_history completes it). It does not say that this was the committed offset",
        ),
        column(
            "marker_offset",
            BIGINT,
            "Offset of the marker that ended the transaction; null: no transaction, or the marker lies elsewhere",
        ),
        *RAW_KEY_AND_VALUE,
    ]
)

GROUP_RECORDS = pa.schema(
    [
        *PLACE_IN_LOG,
        OFFSET_DELTA,
        required("record_type", SMALLINT, "Type of the record: 2 to 23"),
        required("record_name", STRING, "Kafka's name of the type: GroupMetadata, ConsumerGroupMemberMetadata, ..."),
        required("group_id", STRING, "Group"),
        column("member_id", STRING, "Member in the record's key; null: the record is about the group"),
        column("regular_expression", STRING, "Expression in the record's key; null: another type"),
        column("value_version", SMALLINT, "Version of the value; null: tombstone"),
        column(
            "value",
            STRING,
            "Value as JSON text: keys as in Kafka's message files, bytes as base64, a protocol blob as an object or, "
            "where it cannot be read, as base64 under its key with Raw added; null: tombstone",
        ),
        column("producer_id", BIGINT, "Producer; null: none"),
        required("is_transactional", BOOLEAN, "The record is part of a transaction"),
        *RAW_KEY_AND_VALUE,
    ]
)

TRANSACTION_MARKERS = pa.schema(
    [
        *PLACE_IN_LOG,
        column("producer_id", BIGINT, "Producer whose transaction it ends; null: none"),
        column("producer_epoch", SMALLINT, "Producer epoch; null: none"),
        column(
            "coordinator_epoch",
            INT,
            "Epoch of the transaction coordinator; null: not a transaction's end, or unreadable",
        ),
        required("control_type", SMALLINT, "Type of the control record: 0 abort, 1 commit"),
        column("outcome", STRING, "committed or aborted; null: neither"),
        column(
            "transaction_start_offset",
            BIGINT,
            "The producer's first transactional record after its marker before; null: none",
        ),
        column("offset_count", INT, "Offsets in the transaction; null: neither committed nor aborted"),
        column("group_ids", array(STRING), "Groups whose offsets were in it; null: neither committed nor aborted"),
    ]
)

QUARANTINE = pa.schema(
    [
        *PLACE_IN_LOG,
        required("record_count", INT, "1; of a batch what its header claims; 0: the record is counted where it stands"),
        column("record_type", SMALLINT, "Type in the key; null: cannot be read"),
        column("record_name", STRING, "Kafka's name of the type; null: unknown"),
        column("group_id", STRING, "Group in the key; null: cannot be read"),
        column("topic", STRING, "Topic in the key; null: none, or cannot be read"),
        column("partition", INT, "Partition in the key; null: none, or cannot be read"),
        column("value_version", SMALLINT, "Version of the value; null: none, or cannot be read"),
        column("producer_id", BIGINT, "Producer; null: none"),
        column(
            "is_transactional",
            BOOLEAN,
            "The record is part of a transaction; null: a whole batch, a record of another table, or read before "
            "layout 5",
        ),
        required(
            "reason",
            STRING,
            "unknown_record_type, unknown_value_version, truncated, empty_value, null_key, corrupt_batch, or "
            "load_would_fail: a record that stands in its own table and that a coordinator's load would have failed at",
        ),
        *WHERE_IT_STANDS,
        column("resolved_by", BIGINT, "Audit that decoded it later; null: none has"),
    ]
)


def _of_one_version(columns: list[pa.Field], *, key: set[str]) -> list[pa.Field]:
    return [field if field.name in key else nullable(field) for field in columns]


GROUP_VERSIONS = pa.schema(
    [
        *PLACE_IN_LOG,
        required("is_removed", BOOLEAN, "The record removed the group; the columns behind group_id are then null"),
        *_of_one_version([*GROUP_COLUMNS, GROUPS.field("is_misplaced")], key={"group_id"}),
    ]
)

GROUP_MEMBER_VERSIONS = pa.schema(
    [
        *PLACE_IN_LOG,
        required("is_removed", BOOLEAN, "The record removed the member; the columns behind member_id are then null"),
        *_of_one_version(MEMBER_COLUMNS, key={"group_id", "member_id"}),
    ]
)

GROUP_EVENTS = pa.schema(
    [
        *PLACE_IN_LOG,
        required("event_index", INT, "Number of the event among those of its log offset, from 0 on"),
        column(
            "event_timestamp", TIMESTAMP, "Commit time, where an offset moved outside transactions; else log_timestamp"
        ),
        required("group_id", STRING, "Group"),
        column(
            "group_type",
            STRING,
            "classic, consumer, share or streams, as the event left it; null: no such group (any more)",
        ),
        required(
            "event",
            STRING,
            "group_created, state_changed, generation_changed (classic generation or group epoch), member_joined, "
            "member_left, assignment_changed (of a member that stayed), group_type_changed, group_removed, "
            "offset_rewound, offset_skipped (went up while the group had no members), offset_removed, "
            "offset_restarted (first commit after a removal: lower = read again, higher = never read), topic_recreated",
        ),
        column("member_id", STRING, "Member; null: the event is of no single one"),
        column("topic", STRING, "Topic; null: the event is of no topic"),
        column("partition", INT, "Partition of the topic; null: the event is of no single one"),
        column("offset_before", BIGINT, "Committed offset before, of offset_restarted before the removal; null: none"),
        column("offset_after", BIGINT, "Committed offset after; null: none"),
        column("value_before", STRING, "State, type, generation, topic id before; JSON of an assignment; null: none"),
        column("value_after", STRING, "The same after; null: none"),
        column(
            "cause",
            STRING,
            "Causes of removals: expired, group_deleted, offset_deleted, topic_deleted or unknown; of moves no_members "
            "(the group had none: an admin reset, most likely), with_members, transaction, topic_recreated or unknown; "
            "null: the event is neither",
        ),
    ]
)

GROUP_TRAFFIC = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        required("group_id", STRING, "Group"),
        column("hour", TIMESTAMP, "Start of the hour of log time; null: records without a time"),
        required("commits", BIGINT, "Offset commits, transactional ones included"),
        required("tombstones", BIGINT, "Offset tombstones"),
        required("transactional_commits", BIGINT, "Offset commits in transactions, whatever became of them"),
        required("other_records", BIGINT, "Records of other types"),
        required("bytes", BIGINT, "Bytes of these records' keys and values"),
    ]
)

TOPIC_OFFSETS = pa.schema(
    [
        AUDIT_ID,
        required("topic", STRING, "Topic with committed offsets"),
        column("topic_id", STRING, "Its topic id in Kafka's text form; null: the cluster did not say (or has none)"),
        required("partition", INT, "Partition of the topic, or one of committed offsets that the topic does not have"),
        column("log_start_offset", BIGINT, "First offset that the partition still had; null: status is not ok"),
        column("log_end_offset", BIGINT, "Its high watermark, where consumers stop; null: status is not ok"),
        required(
            "status",
            STRING,
            "ok; unknown_topic: the cluster has no such topic or partition, the only one that says so; not_authorized: "
            "we may not describe the topic; unavailable: no leader, or another error",
        ),
        required("seen_at", TIMESTAMP, "When the audit asked"),
    ]
)

FINDINGS = pa.schema(
    [
        AUDIT_ID,
        required("finding", STRING, "The kind of finding, one of a closed set"),
        required("severity", STRING, "error: something fails or is lost; warning: it may; notice: worth knowing"),
        column("group_id", STRING, "The group it is about; null: not about one group"),
        column("topic", STRING, "The topic; null: not about one topic"),
        column("partition", INT, "The topic's partition; null: not about one partition"),
        column("member_id", STRING, "The member; null: not about one member"),
        column("producer_id", BIGINT, "The producer; null: not about one producer"),
        column("offsets_partition", INT, "Partition of __consumer_offsets; null: not about one of them"),
        column("log_offset", BIGINT, "The record that shows it; null: no single record does"),
        column("since", TIMESTAMP, "Since when it is so; null: not known"),
        required("detail", STRING, "The fact, why it matters, what to do"),
    ]
)
