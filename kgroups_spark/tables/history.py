"""The tables that are only appended to.

`offset_commits`, `group_records`, `transaction_markers` and `quarantine` together are the log: every record read is in
exactly one of them. The version tables hold the states of groups and members that follow from them, and `group_traffic`
has counts of their records. `topic_offsets` is not from the log: each audit of a live cluster asks the brokers.
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

# The batch of a record: a coordinator writes an operation as one batch, and Kafka's cleaner does not join batches.
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
        column("leader_epoch", INT, "Leader epoch of the last record consumed; null: not given"),
        column("metadata", STRING, "Metadata text of the client, '' is normal; null: tombstone"),
        column(
            "commit_timestamp",
            TIMESTAMP,
            "Time of the commit; null: tombstone, none, or outside the years 1 to 9999",
        ),
        column(
            "expire_timestamp",
            TIMESTAMP,
            "When it will expire (clients before 2.1); null: not given, or outside the years 1 to 9999",
        ),
        column("topic_id", STRING, "Topic id; null: not logged"),
        required("record_type", SMALLINT, "Type of the record: 0 or 1"),
        column("value_version", SMALLINT, "Version of the value; null: tombstone"),
        column("producer_id", BIGINT, "Producer; null: none"),
        column("producer_epoch", SMALLINT, "Producer epoch; null: none"),
        required("is_transactional", BOOLEAN, "The record is part of a transaction"),
        column(
            "outcome",
            STRING,
            "committed or aborted; null: no transaction, or its marker is outside the range that wrote the row (view "
            "offset_history completes it). committed does not mean that it became the committed offset",
        ),
        column(
            "marker_offset",
            BIGINT,
            "Offset of the marker that ended the transaction; null: no transaction, or the marker is outside that "
            "range",
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
        column("member_id", STRING, "Member in the record's key; null: the record concerns the group"),
        column("regular_expression", STRING, "Regular expression in the record's key; null: another type"),
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
            "The producer's first transactional record after its previous marker; null: none",
        ),
        column(
            "offset_count",
            INT,
            "Offsets in the transaction, without those in quarantine when the marker was read; null: neither committed "
            "nor aborted",
        ),
        column(
            "group_ids", array(STRING), "Groups whose offsets were counted in it; null: neither committed nor aborted"
        ),
    ]
)

QUARANTINE = pa.schema(
    [
        *PLACE_IN_LOG,
        required("record_count", INT, "1 for a record; a batch's claimed count; 0 if another table counts it"),
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
            "load_would_fail: a record that is in its own table, and at which a coordinator's load would have failed",
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
        required("is_removed", BOOLEAN, "The record removed the group; the columns after group_id are then null"),
        *_of_one_version([*GROUP_COLUMNS, GROUPS.field("is_misplaced")], key={"group_id"}),
    ]
)

GROUP_MEMBER_VERSIONS = pa.schema(
    [
        *PLACE_IN_LOG,
        required("is_removed", BOOLEAN, "The record removed the member; the columns after member_id are then null"),
        *_of_one_version(MEMBER_COLUMNS, key={"group_id", "member_id"}),
    ]
)

GROUP_EVENTS = pa.schema(
    [
        *PLACE_IN_LOG,
        required("event_index", INT, "Number of the event among those with its log offset, from 0 on"),
        column("event_timestamp", TIMESTAMP, "Commit time if an offset moved outside transactions; else log_timestamp"),
        required("group_id", STRING, "Group"),
        column(
            "group_type",
            STRING,
            "classic, consumer, share or streams, after the event; null: the group does not exist (any more)",
        ),
        required(
            "event",
            STRING,
            "group_created, state_changed, generation_changed (classic generation or group epoch), member_joined, "
            "member_left, member_replaced (a static member under another member id, without a rebalance of its own), "
            "assignment_changed (a member that stayed), group_type_changed, group_removed, "
            "offset_rewound, offset_skipped (rose while the group had no members), offset_removed, offset_restarted "
            "(first commit after its removal; a lower offset: records are read again, a higher one: records are "
            "never read), offset_unset (a negative offset was committed, which clients take for none), topic_recreated",
        ),
        column("member_id", STRING, "Member; null: the event does not concern a single member"),
        column("topic", STRING, "Topic; null: the event does not concern a topic"),
        column("partition", INT, "Partition of the topic; null: the event does not concern a single partition"),
        column(
            "offset_before",
            BIGINT,
            "Committed offset before the event (offset_restarted: before the removal); null: none",
        ),
        column("offset_after", BIGINT, "Committed offset after the event; null: none"),
        column(
            "value_before",
            STRING,
            "State, type, generation, topic id or (member_replaced) member id before the event; an assignment as JSON; "
            "null: none",
        ),
        column("value_after", STRING, "The same after the event; null: none"),
        column(
            "cause",
            STRING,
            "Cause of a removal: expired, group_deleted, offset_deleted, topic_deleted or unknown; of a move: "
            "no_members (most likely an admin reset), self_assigned (the group has no protocol type: a restart of "
            "consumers that assign themselves, or a reset, the log cannot tell), with_members, transaction, "
            "topic_recreated or unknown; null: neither a removal nor a move",
        ),
        column("group_instance_id", STRING, "Instance id of the member; null: no single member, or not a static one"),
        column("client_id", STRING, "Client id of a member that joined, left or replaced another; null: otherwise"),
        column("client_host", STRING, "Its host; null: as client_id"),
        column(
            "overdue_since",
            TIMESTAMP,
            "Removal whose cause is unknown, because expiry by the retention was due more than a day earlier: since "
            "when it was; null: otherwise",
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
        required("transactional_commits", BIGINT, "Offset commits in transactions, whatever their outcome"),
        required("other_records", BIGINT, "Records of other types"),
        required("bytes", BIGINT, "Bytes of these records' keys and values"),
    ]
)

TOPIC_OFFSETS = pa.schema(
    [
        AUDIT_ID,
        required("topic", STRING, "Topic with committed offsets, or with an offset removed for an unknown cause"),
        column(
            "topic_id", STRING, "Its topic id in Kafka's text form; null: the cluster did not report it (or has none)"
        ),
        required("partition", INT, "Partition of the topic, or of a committed offset whose partition does not exist"),
        column("log_start_offset", BIGINT, "First offset that the partition still had; null: status is not ok"),
        column("log_end_offset", BIGINT, "High watermark, where consumers stop; null: status is not ok"),
        required(
            "status",
            STRING,
            "ok; unknown_topic: the cluster has no such topic or partition (no other status proves that); "
            "not_authorized: DESCRIBE on the topic is denied; unavailable: no leader, or another error",
        ),
        required("seen_at", TIMESTAMP, "When the audit asked the brokers"),
    ]
)

FINDINGS = pa.schema(
    [
        AUDIT_ID,
        required("finding", STRING, "Name of the finding, from a closed set"),
        required("severity", STRING, "error: something fails or is lost; warning: it may; notice: worth knowing"),
        column("group_id", STRING, "Group; null: not about one group"),
        column("topic", STRING, "Topic; null: not about one topic"),
        column("partition", INT, "Partition of the topic; null: not about one partition"),
        column("member_id", STRING, "Member; null: not about one member"),
        column("producer_id", BIGINT, "Producer id; null: not about one producer"),
        column("offsets_partition", INT, "Partition of __consumer_offsets; null: not about one of them"),
        column("log_offset", BIGINT, "Log offset of the record that shows it; null: no single record does"),
        column("since", TIMESTAMP, "Start of the condition; null: unknown"),
        required("detail", STRING, "The problem, why it matters, what to do"),
    ]
)
