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
    OFFSETS_PARTITION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    array,
    column,
    map_of,
    required,
    struct,
)

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
