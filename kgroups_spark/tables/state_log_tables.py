"""Tables of `__share_group_state` and `__transaction_state`: history, current state, and the state that an audit goes
on from.

`share_group_state_records` and `transaction_state_records`, together with `state_quarantine`, are those two logs: every
record read is in exactly one of them. `state_partition` is a partition of the log named by the table or by its column
`log`.
"""

from __future__ import annotations

import pyarrow as pa

from kgroups_spark.tables.columns import (
    AUDIT_ID,
    BIGINT,
    INT,
    LOG_OFFSET,
    LOG_TIMESTAMP,
    RAW_KEY_AND_VALUE,
    SMALLINT,
    STRING,
    TIMESTAMP,
    WHERE_IT_STANDS,
    array,
    column,
    required,
    struct,
)
from kgroups_spark.tables.columns import nullable as may_be_null

LOG = required("log", STRING, "__share_group_state or __transaction_state")
STATE_PARTITION = required("state_partition", INT, "Partition of that log")
PLACE_IN_STATE_LOG = [AUDIT_ID, STATE_PARTITION, LOG_OFFSET, LOG_TIMESTAMP]

VALUE = [
    column("value_version", SMALLINT, "Version of the value; null: tombstone"),
    column("value", STRING, "Value as JSON text, keys as in Kafka's message files; null: tombstone"),
]
SHARE_PARTITION_KEY = [
    required("group_id", STRING, "Share group"),
    required("topic_id", STRING, "Topic id in Kafka's text form"),
    required("partition", INT, "Partition of the topic"),
]

SHARE_GROUP_STATE_RECORDS = pa.schema(
    [
        *PLACE_IN_STATE_LOG,
        required("record_type", SMALLINT, "Type of the record: 0 snapshot, 1 update"),
        required("record_name", STRING, "Kafka's name of the type: ShareSnapshot, ShareUpdate"),
        *SHARE_PARTITION_KEY,
        *VALUE,
        column(
            "layout",
            STRING,
            "4.0: early access; ?4.0: the bytes fit both; null: the layout of 4.1 and newer, or a tombstone",
        ),
        *RAW_KEY_AND_VALUE,
    ]
)

TRANSACTION_STATE_RECORDS = pa.schema(
    [
        *PLACE_IN_STATE_LOG,
        required("record_type", SMALLINT, "Type of the record: 0"),
        required("record_name", STRING, "Kafka's name of the type: TransactionLog"),
        required("transactional_id", STRING, "transactional.id"),
        *VALUE,
        *RAW_KEY_AND_VALUE,
    ]
)

STATE_QUARANTINE = pa.schema(
    [
        AUDIT_ID,
        LOG,
        *PLACE_IN_STATE_LOG[1:],
        required("record_count", INT, "1 for a record; a batch's claimed count; 0 if another table counts it"),
        column("record_type", SMALLINT, "Type in the key; null: cannot be read"),
        column("record_name", STRING, "Kafka's name of the type; null: unknown"),
        column("group_id", STRING, "Share group in the key; null: none, or cannot be read"),
        column("topic_id", STRING, "Topic id in the key; null: none, or cannot be read"),
        column("partition", INT, "Partition in the key; null: none, or cannot be read"),
        column("transactional_id", STRING, "transactional.id in the key; null: none, or cannot be read"),
        column("value_version", SMALLINT, "Version of the value; null: none, or cannot be read"),
        required("reason", STRING, "As in quarantine"),
        *WHERE_IT_STANDS,
    ]
)

STATE_EVENTS = pa.schema(
    [
        AUDIT_ID,
        LOG,
        *PLACE_IN_STATE_LOG[1:],
        required(
            "event",
            STRING,
            "share_partition_initialized, share_offset_reset (by Admin), share_offsets_deleted; transaction_timed_out, "
            "producer_fenced (not of transactions version 2, where a fence looks like the producer's own abort)",
        ),
        column("group_id", STRING, "Share group; null: the event concerns a transactional id"),
        column("topic_id", STRING, "Topic id; null: the event concerns a transactional id"),
        column("partition", INT, "Partition of the topic; null: the event concerns a transactional id"),
        column("offset_before", BIGINT, "Start offset before the event; null: unknown, not set, or no share partition"),
        column("offset_after", BIGINT, "Start offset after the event; null: unknown, not set, or no share partition"),
        column(
            "state_epoch_before", INT, "State epoch before the event; null: unknown, not set, or no share partition"
        ),
        column("state_epoch_after", INT, "State epoch after the event; null: unknown, not set, or no share partition"),
        column("transactional_id", STRING, "transactional.id; null: the event concerns a share partition"),
        column(
            "producer_id", BIGINT, "Producer whose transaction was open; null: the event concerns a share partition"
        ),
        column("producer_epoch", SMALLINT, "Producer epoch; null: the event concerns a share partition"),
        column("start_timestamp", TIMESTAMP, "When that transaction began; null: unknown, or no transaction"),
        column("timeout_ms", INT, "Timeout of the transaction; null: the event concerns a share partition"),
    ]
)

SHARE_PARTITIONS = pa.schema(
    [
        AUDIT_ID,
        may_be_null(STATE_PARTITION).with_metadata(
            {"comment": "Partition of __share_group_state; null: the group's coordinator lists it, and it has no state"}
        ),
        *SHARE_PARTITION_KEY[:2],
        column("topic", STRING, "Name of the topic; null: not known"),
        SHARE_PARTITION_KEY[2],
        column("start_offset", BIGINT, "Share-partition start offset; null: not set yet, or no state"),
        column("state_epoch", INT, "State epoch: the group epoch at which it was initialized; null: no state"),
        column("leader_epoch", INT, "Leader epoch of the share partition; null: no state"),
        column("snapshot_epoch", INT, "Number of the newest snapshot; null: no state"),
        column(
            "delivery_complete_count",
            INT,
            "Records after the start offset that need no more delivery (4.2 and newer); null: unknown",
        ),
        column(
            "init_state",
            STRING,
            "initializing, initialized, deleting, as the group's coordinator lists it (record type 15 of "
            "__consumer_offsets); null: it does not list it",
        ),
        column("create_timestamp", TIMESTAMP, "When the state was created; null: unknown"),
        column("write_timestamp", TIMESTAMP, "When the newest snapshot was written; null: unknown"),
        column("log_timestamp", TIMESTAMP, "Log time of the newest record; null: none, or no state"),
        column("log_offset", BIGINT, "Newest record about it; null: no state"),
    ]
)

SHARE_BATCHES = pa.schema(
    [
        AUDIT_ID,
        STATE_PARTITION.with_metadata({"comment": "Partition of __share_group_state"}),
        *SHARE_PARTITION_KEY,
        required("first_offset", BIGINT, "First offset of the batch"),
        required("last_offset", BIGINT, "Last offset of the batch"),
        required(
            "delivery_state",
            STRING,
            "available, acknowledged, archived or, since 4.4, archiving (given up, and not yet in the dead-letter "
            "queue). Records in flight and the end of the window are never stored",
        ),
        required("delivery_count", INT, "Number of deliveries of its records"),
        column(
            "attempts_left",
            INT,
            "Deliveries that the group's share.delivery.count.limit still allows, else the brokers' "
            "group.share.delivery.count.limit; null: acknowledged, archiving or archived, or the limit is unknown",
        ),
        column(
            "archived_as",
            STRING,
            "attempts_used_up, rejected_or_gap; null: neither archiving nor archived, or the limit is unknown",
        ),
    ]
)

TRANSACTIONAL_IDS = pa.schema(
    [
        AUDIT_ID,
        STATE_PARTITION.with_metadata({"comment": "Partition of __transaction_state"}),
        required("transactional_id", STRING, "transactional.id"),
        column("producer_id", BIGINT, "Current producer id; null: none"),
        column("producer_epoch", SMALLINT, "Producer epoch; null: none"),
        column("previous_producer_id", BIGINT, "Producer id of the last transaction, if it was different; null: none"),
        column("next_producer_id", BIGINT, "Producer id that takes over when the transaction ends; null: none"),
        column("next_producer_epoch", SMALLINT, "Epoch of the next producer; null: none"),
        required(
            "state",
            STRING,
            "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead, PrepareEpochFence",
        ),
        required("timeout_ms", INT, "transaction.timeout.ms of the producer; 2147483647: two-phase, no timeout"),
        column(
            "topic_partitions",
            array(
                struct(
                    required("topic", STRING, "Topic that the open transaction has written to"),
                    required("partition", INT, "Its partition"),
                )
            ),
            "Partitions to which the open transaction has written, __consumer_offsets included; in order",
        ),
        column("start_timestamp", TIMESTAMP, "When the transaction began; null: none is open, or unknown"),
        column("last_update_timestamp", TIMESTAMP, "When the state last changed; null: unknown"),
        column(
            "expires_at",
            TIMESTAMP,
            "Earliest moment at which the coordinator removes an unused id (transactional.id.expiration.ms); null: "
            "never in this state",
        ),
        required("log_offset", BIGINT, "Newest record about it"),
    ]
)

STATE_LOG_STATE = pa.schema(
    [
        AUDIT_ID,
        LOG,
        STATE_PARTITION,
        required("entry_type", STRING, "The kind of the payload; known only to the coordinator's save and load"),
        column("group_id", STRING, "Group; null: the entry does not concern a group"),
        required("payload", STRING, "JSON text"),
    ]
)
