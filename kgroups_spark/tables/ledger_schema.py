"""The ledger: one row when an audit claims its number, one when it has finished."""

from __future__ import annotations

import pyarrow as pa

from kgroups_spark.tables.columns import (
    BIGINT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    array,
    column,
    map_of,
    required,
    struct,
)

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
        column("removed_up_to", BIGINT, "maintain --keep removed audits up to this one; null: it removed none"),
    ]
)
