"""The current tables: the state as of the last finished audit. Each audit rewrites them.

The version tables of history.py repeat the columns of `groups` and `group_members`, with the log offset of each change.
"""

from __future__ import annotations

import pyarrow as pa

from kgroups_spark.tables.columns import (
    AUDIT_ID,
    BIGINT,
    BINARY,
    BOOLEAN,
    INT,
    LOG_OFFSET,
    LOG_TIMESTAMP,
    OFFSETS_PARTITION,
    PLACE_IN_LOG,
    RAW_KEY_AND_VALUE,
    SMALLINT,
    STRING,
    TIMESTAMP,
    WHERE_IT_STANDS,
    array,
    column,
    map_of,
    nullable,
    required,
    struct,
)
from kgroups_spark.tables.columns import nullable as may_be_null

ASSIGNED_PARTITION = struct(
    column("topic", STRING, "Null: only the topic id stood in the log by then; topics may name it"),
    column("topic_id", STRING, "Topic id in Kafka's text form; null: only the name stood in the log by then"),
    required("partition", INT, "Partition of the topic"),
    column("assignment_epoch", INT, "Epoch in which the member got it (4.3 and newer); null: not logged"),
)

TASK = struct(
    required("role", STRING, "active, standby or warmup"),
    required("subtopology_id", STRING, "Subtopology of the group's topology"),
    required("partition", INT, "Partition that the task works on"),
)

GROUP_COLUMNS = [
    required("group_id", STRING, "Group"),
    required("group_type", STRING, "classic, consumer, share or streams"),
    required("state", STRING, "State in Kafka's words, from the log alone (PreparingRebalance is never logged)"),
    required("is_simple", BOOLEAN, "The group has only offsets: no member ever joined it, or its metadata is gone"),
    column("protocol_type", STRING, "Classic: consumer, connect, ...; null: none (simple groups)"),
    column("protocol", STRING, "Classic: name of the chosen protocol, as range; null: none or not classic"),
    column("generation", INT, "Classic: generation; null: not classic"),
    column("group_epoch", INT, "Consumer, share, streams: group epoch; null: classic"),
    column(
        "assignment_epoch", INT, "Consumer, share, streams: epoch of the target assignment; null: none yet, or classic"
    ),
    column("leader", STRING, "Classic: member id of the leader; null: none or not classic"),
    column(
        "current_state_timestamp", TIMESTAMP, "Classic: time of the state in the group's own record; null: not logged"
    ),
    column("state_since", TIMESTAMP, "Log time of the record that caused the state; null: that record has no time"),
    required("member_count", INT, "Members of the group"),
    column(
        "metadata_hash", BIGINT, "Consumer, share, streams: hash of the subscribed topics' metadata; null: not logged"
    ),
    column("resolved_regex_topics", map_of(array(STRING)), "Topics by subscribed regular expression; null: none"),
]

GROUPS = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        *GROUP_COLUMNS,
        column("topology", STRING, "Streams: topology as JSON text; null: none"),
        column(
            "stored_description_epoch",
            INT,
            "Streams (4.4): topology epoch that the topology description plugin holds, -2: uncertain; null: none",
        ),
        column(
            "is_misplaced",
            BOOLEAN,
            "The group's name does not hash to this partition; null: number of partitions unknown",
        ),
        column("log_offset", BIGINT, "Newest record about the group itself; null: the group has only offsets"),
    ]
)

MEMBER_COLUMNS = [
    required("group_id", STRING, "Group"),
    required("member_id", STRING, "Member"),
    column("group_instance_id", STRING, "group.instance.id of a static member; null: dynamic"),
    column("client_id", STRING, "client.id; null: not logged"),
    column("client_host", STRING, "Host as the broker saw it; null: not logged"),
    column("rack_id", STRING, "Rack; null: not logged"),
    column("rebalance_timeout_ms", INT, "Rebalance timeout; null: not logged"),
    column("session_timeout_ms", INT, "Classic protocol: session timeout; null: not logged"),
    column("member_epoch", INT, "Member epoch, -2: a static member that is away; null: classic, or none yet"),
    column("previous_member_epoch", INT, "Previous member epoch; null: classic, or none yet"),
    column(
        "member_state",
        STRING,
        "STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS, UNREVOKED_TASKS, UNRELEASED_TASKS, UNKNOWN; "
        "null: classic",
    ),
    column("uses_classic_protocol", BOOLEAN, "Uses the classic protocol; null: share and streams, which have only one"),
    column("server_assignor", STRING, "Assignor that the member requested; null: none"),
    column(
        "subscribed_topics", array(STRING), "Subscribed topic names; null: unknown, its subscription cannot be read"
    ),
    column("subscribed_regex", STRING, "Subscribed regular expression; null: none"),
    column("assigned_partitions", array(ASSIGNED_PARTITION), "Assigned partitions; null: unknown, or streams"),
    column(
        "pending_revocation_partitions",
        array(ASSIGNED_PARTITION),
        "Partitions pending revocation; null: classic or streams",
    ),
    column("target_partitions", array(ASSIGNED_PARTITION), "Its target assignment; null: classic or streams"),
    column("assigned_tasks", array(TASK), "Streams: assigned tasks; null: not streams"),
    column("target_tasks", array(TASK), "Streams: tasks of its target assignment; null: not streams"),
    column("pending_revocation_tasks", array(TASK), "Streams: tasks pending revocation; null: not streams"),
    column("topology_epoch", INT, "Streams: epoch of the member's topology; null: not streams"),
    column("process_id", STRING, "Streams: process id; null: not streams"),
]

GROUP_MEMBERS = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        *MEMBER_COLUMNS,
        column("user_data", BINARY, "User data of its subscription; null: none"),
        column(
            "user_data_json",
            STRING,
            "The same as JSON text, of the assignors sticky, cooperative-sticky and stream (Kafka Streams): "
            "generation, previous partitions, process id, tasks; null: none, or of another assignor",
        ),
        column("log_offset", BIGINT, "Newest record about the member"),
    ]
)

SLOT = [
    required("group_id", STRING, "Group"),
    required("topic", STRING, "Topic"),
    required("partition", INT, "Partition of the topic"),
]

COMMIT = [
    required("committed_offset", BIGINT, "Offset that the group committed: the next one that it will read"),
    column("leader_epoch", INT, "Leader epoch of the last record consumed; null: not given"),
    required("metadata", STRING, "Metadata text of the client; '' is normal"),
    column("commit_timestamp", TIMESTAMP, "Time of the commit, or the nearest time in the years 1 to 9999; null: none"),
    column(
        "expire_timestamp",
        TIMESTAMP,
        "When it will expire (clients before 2.1), or the nearest time in the years 1 to 9999; null: not given",
    ),
    column("topic_id", STRING, "Topic id; null: not logged"),
]

COMMITTED_OFFSETS = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        *SLOT,
        *COMMIT,
        required("record_type", SMALLINT, "Type of the record: 0 or 1"),
        required("value_version", SMALLINT, "Version of the record's value"),
        required("log_offset", BIGINT, "Record that committed it"),
        required("is_orphan", BOOLEAN, "No group of that id exists: the broker neither returns nor expires it"),
    ]
)

TRANSACTIONAL_ID = column(
    "transactional_id", STRING, "transactional.id of the producer; null: __transaction_state was not read"
)

PENDING_OFFSETS = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        required("producer_id", BIGINT, "Producer id of the transaction"),
        column("producer_epoch", SMALLINT, "Producer epoch; null: none"),
        *SLOT,
        *COMMIT,
        required("log_offset", BIGINT, "Record that holds it"),
        column(
            "transaction_start_offset",
            BIGINT,
            "Transaction's first record on this partition; null: the record has a producer but is in no transaction",
        ),
        column("open_since", TIMESTAMP, "Log time of that first record; null: no transaction, or no time"),
        TRANSACTIONAL_ID,
    ]
)

OPEN_TRANSACTIONS = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        required("producer_id", BIGINT, "Producer id of the transaction"),
        column("producer_epoch", SMALLINT, "Producer epoch; null: none"),
        required("transaction_start_offset", BIGINT, "Its first record after its last marker"),
        column("open_since", TIMESTAMP, "Log time of that record; null: it has none"),
        required("offset_count", INT, "Offsets in the transaction so far"),
        required("group_ids", array(STRING), "Groups whose offsets are in it"),
        TRANSACTIONAL_ID,
        column(
            "is_hanging",
            BOOLEAN,
            "By Kafka's rule, as of the audit: open for longer than 15 minutes, and the transaction coordinator "
            "will not end it, or __transaction_state was not read; null: open_since is null",
        ),
    ]
)

JUDGED = [
    required("as_of", TIMESTAMP, "Time at which expiry was judged"),
    required("retention_ms", BIGINT, "Retention that was used"),
]

OFFSET_EXPIRY = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        *JUDGED,
        *SLOT,
        required("committed_offset", BIGINT, "The committed offset"),
        required("log_offset", BIGINT, "Record that committed it"),
        required("decision", STRING, "expire or keep, at the broker's next check after as_of"),
        required(
            "reason",
            STRING,
            "The first that applies: orphan, share_group, group_active, subscription_unknown, subscribed, "
            "pending_transaction, expire_timestamp_passed, before_expire_timestamp, retention_passed, "
            "within_retention; clean_up_fails instead of the last four where a share group's offsets end the clean-up "
            "(4.0 and 4.4)",
        ),
        column(
            "base",
            STRING,
            "The start of the retention period: commit_timestamp, current_state_timestamp, expire_timestamp; null: "
            "none",
        ),
        column("base_timestamp", TIMESTAMP, "Time from which retention counts; null: none"),
        column("expires_at", TIMESTAMP, "Earliest moment, if the group stays as it is; null: not if it stays as it is"),
        column(
            "expires_at_if_empty", TIMESTAMP, "The same if the group's last member left at as_of; null: not even then"
        ),
    ]
)

GROUP_EXPIRY = pa.schema(
    [
        AUDIT_ID,
        OFFSETS_PARTITION,
        *JUDGED,
        required("group_id", STRING, "Group"),
        required("group_type", STRING, "classic, consumer, share or streams"),
        required("state", STRING, "State in Kafka's words"),
        required("decision", STRING, "delete or keep, at the broker's next check after as_of"),
        required(
            "reason",
            STRING,
            "empty_and_nothing_left (delete); has_members, offsets_left, open_transaction, share_group, "
            "clean_up_fails, topology_description",
        ),
        column("deletes_at", TIMESTAMP, "Earliest moment, if the group stays as it is; null: not if it stays as it is"),
        required("writes_tombstone", BOOLEAN, "The broker writes a tombstone when it deletes the group"),
    ]
)

TOPICS = pa.schema(
    [
        AUDIT_ID,
        required("topic_id", STRING, "Topic id in Kafka's text form"),
        required("topic", STRING, "Name of the topic"),
        column(
            "seen_log_timestamp",
            TIMESTAMP,
            "Log time of the newest record with this id; null: none, or only the cluster reported it",
        ),
        required("source", STRING, "offset_commit, group_record or cluster"),
    ]
)


# The tables that are only appended to.
#
# `offset_commits`, `group_records`, `transaction_markers` and `quarantine` together are the log: every record read is
# in exactly one of them. The version tables hold the states of groups and members that follow from them, and
# `group_traffic` has counts of their records. `topic_offsets` is not from the log: each audit of a live cluster asks
# the brokers.


# The batch of a record: a coordinator writes an operation as one batch, and Kafka's cleaner does not join batches.
OFFSET_DELTA = column(
    "offset_delta",
    INT,
    "log_offset minus its batch's base offset; null: message format 0 or 1, or out of quarantine",
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
            "The record is part of a transaction; null: a whole batch, or a record of another table",
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
        required(
            "topic",
            STRING,
            "Topic with committed offsets, to which members subscribe, or with an offset removed for an unknown cause",
        ),
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

CLUSTER_FACTS = pa.schema(
    [
        AUDIT_ID,
        required("kind", STRING, "broker_config, group_config, feature or leader"),
        column(
            "name",
            STRING,
            "Kafka's name of the configuration or feature; leader: number of the offsets partition; null: the "
            "configuration of the group, or of all groups, could not be read",
        ),
        column(
            "value",
            STRING,
            "Value of the configuration, level of the feature, or host:port of the leader; null: unknown",
        ),
        column(
            "source",
            STRING,
            "set: for broker, cluster or group; default: Kafka's; option: of kgroups audit; null: a feature, "
            "a leader, or unknown",
        ),
        column(
            "broker", INT, "Broker that has the configuration, or leads the offsets partition; null: not of a broker"
        ),
        column("group_id", STRING, "Group for which it was set; null: not of a group"),
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


# Rows of `quarantine` for records that are in other tables and at which a coordinator's load fails.


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


# The ledger: one row when an audit claims its number, one when it has finished.


PARTITION_PROGRESS = struct(
    required("offsets_partition", INT, "Partition of __consumer_offsets"),
    column("topic_id", STRING, "Topic id of the log; null: unknown"),
    column("log_start_offset", BIGINT, "First offset that the log still had; null: unknown"),
    required("start_offset", BIGINT, "Where this audit began to read"),
    required("end_offset", BIGINT, "Next offset: where the next audit begins"),
    required("records", BIGINT, "Records read"),
    required("records_reread", BIGINT, "Records of these that were read before and not added again"),
    required("bytes", BIGINT, "Bytes read"),
    required("offsets_missing", BIGINT, "Offsets of the span without a record: compacted away"),
    column("lost_from", BIGINT, "First offset that was gone before we came; null: none"),
    column("lost_to", BIGINT, "Offset after the last one that was gone before we came; null: none"),
    column("last_batch_offset", BIGINT, "Base offset of the last batch read; null: none was ever read"),
    column("last_leader_epoch", INT, "Its leader epoch; null: none, or a legacy batch"),
    column("last_batch_crc", BIGINT, "Its checksum, unsigned; null: no batch was ever read"),
    column("newest_log_timestamp", TIMESTAMP, "Newest time in the log so far; null: none"),
    column(
        "topic",
        STRING,
        "__share_group_state or __transaction_state: offsets_partition is a partition of that log; "
        "null: __consumer_offsets",
    ),
)

REPLACED_RANGE = struct(
    required("offsets_partition", INT, "Partition of __consumer_offsets, or of `topic`"),
    required("from_offset", BIGINT, "First offset behind which the log was cut back"),
    required("to_offset", BIGINT, "Next offset of what had been read"),
    required("audit_id", BIGINT, "The audit that found it: what earlier audits read from from_offset on is replaced"),
    column("topic", STRING, "__share_group_state or __transaction_state; null: __consumer_offsets"),
)

RECORD_COUNT = struct(
    required("record_type", SMALLINT, "Type of the record"),
    column("value_version", SMALLINT, "Version of its value; null: tombstones"),
    required("records", BIGINT, "How many"),
)

AUDITS = pa.schema(
    [
        required("audit_id", BIGINT, "Number of the audit, never reused"),
        required(
            "status",
            STRING,
            "running: claimed; finished: everything it wrote counts; abandoned: another audit took over",
        ),
        required("owner", STRING, "The process that runs it: host, process id, start time, a uuid"),
        required("started_at", TIMESTAMP, "When it claimed its number"),
        column("finished_at", TIMESTAMP, "When it finished; null: running"),
        column("as_of", TIMESTAMP, "Time at which expiry was judged; null: running"),
        column("retention_ms", BIGINT, "Retention that was used; null: running"),
        column("retention_source", STRING, "option, broker or default; null: running"),
        column("release_version", STRING, "Kafka release whose rules were used; null: running"),
        column("rules_version", INT, "Version of these rules; null: running"),
        column("state_format", INT, "Version of the saved state's form; null: running"),
        column("source", STRING, "segments, kafka or tables (a rebuild); null: running"),
        column("cluster_id", STRING, "Cluster id of the log; null: unknown"),
        column("software_version", STRING, "Version of kgroups-spark"),
        required("lake_version", INT, "Version of the lake's layout"),
        column("newest_log_timestamp", TIMESTAMP, "Newest time in the logs so far; null: none"),
        column("partitions", array(PARTITION_PROGRESS), "How far each partition was read; null: running"),
        column("rows_added", map_of(BIGINT), "Rows added to history, by table; null: running"),
        column("quarantined", map_of(BIGINT), "Rows of quarantine, by reason; null: running"),
        column("record_counts", array(RECORD_COUNT), "Records read, by type and version; null: running"),
        column("notes", array(STRING), "Notes for people: missing partitions, re-read ones, rebuilt state"),
        column(
            "replaced_ranges",
            array(REPLACED_RANGE),
            "Ranges read by this or an earlier audit and later cut off the log; null: none",
        ),
        column("newest_audits", map_of(BIGINT), "Last audit that wrote to each table (not checkpoints); null: running"),
        column("removed_up_to", BIGINT, "maintain --keep removed findings of audits up to this one; null: none"),
    ]
)


# Tables that only kgroups itself reads; their form is not part of the contract.


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


# Tables of `__share_group_state` and `__transaction_state`: history, current state, and the state that an audit goes
# on from.
#
# `share_group_state_records` and `transaction_state_records`, together with `state_quarantine`, are those two logs:
# every record read is in exactly one of them. `state_partition` is a partition of the log named by the table or by its
# column `log`.


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
        *SHARE_PARTITION_KEY[:2],
        column("topic", STRING, "Name of the topic; null: not known"),
        SHARE_PARTITION_KEY[2],
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
