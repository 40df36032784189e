"""The columns of every table: the contract, as text.

Audits append to history and to the ledger, and rewrite current tables; internal ones are not for users. Each block is
a table, with its key and what a row is, or a struct. A line is a column, `name TYPE: comment`, which may be null unless
it is NOT NULL, or columns of another table, as in the heads of views (sql/views.py).

offset_commits, group_records, transaction_markers and quarantine together are the log of __consumer_offsets: each
record that was read is in exactly one of them. share_group_state_records and transaction_state_records, with
state_quarantine, are the two other logs. The version tables have the states of groups and members that follow from the
records, and group_traffic has counts of them. topic_offsets and cluster_facts are what brokers answered to audits of a
live cluster.

Inside arrays and maps Delta refuses NOT NULL (DELTA_NESTED_NOT_NULL_CONSTRAINT): comments say which fields of a struct
may be null.
"""

DEFINITIONS = """
struct assigned_partition
topic STRING: Null: only the topic id stood in the log by then; topics may name it
topic_id STRING: Topic id in Kafka's text form; null: only the name stood in the log by then
partition INT: Partition of the topic
assignment_epoch INT: Epoch in which the member got it (4.3 and newer); null: not logged

struct task
role STRING: active, standby or warmup
subtopology_id STRING: Subtopology of the group's topology
partition INT: Partition that the task works on

struct partition_progress
offsets_partition INT: Partition of __consumer_offsets
topic_id STRING: Topic id of the log; null: unknown
log_start_offset BIGINT: First offset that the log still had; null: unknown
start_offset BIGINT: Where this audit began to read
end_offset BIGINT: Next offset: where the next audit begins
records BIGINT: Records read
records_reread BIGINT: Records of these that were read before and not added again
bytes BIGINT: Bytes read
offsets_missing BIGINT: Offsets of the span without a record: compacted away
lost_from BIGINT: First offset that was gone before we came; null: none
lost_to BIGINT: Offset after the last one that was gone before we came; null: none
last_batch_offset BIGINT: Base offset of the last batch read; null: none was ever read
last_leader_epoch INT: Its leader epoch; null: none, or a legacy batch
last_batch_crc BIGINT: Its checksum, unsigned; null: no batch was ever read
newest_log_timestamp TIMESTAMP: Newest time in the log so far; null: none
topic STRING: __share_group_state or __transaction_state: offsets_partition is a partition of that log; null:
  __consumer_offsets

struct replaced_range
offsets_partition INT: Partition of __consumer_offsets, or of `topic`
from_offset BIGINT: First offset behind which the log was cut back
to_offset BIGINT: Next offset of what had been read
audit_id BIGINT: The audit that found it: what earlier audits read from from_offset on is replaced
topic STRING: __share_group_state or __transaction_state; null: __consumer_offsets

struct record_count
record_type SMALLINT: Type of the record
value_version SMALLINT: Version of its value; null: tombstones
records BIGINT: How many

struct topic_partition
topic STRING: Topic that the open transaction has written to
partition INT: Its partition

history offset_commits (offsets_partition, log_offset): Record of type 0 or 1: offset commits and their tombstones
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
offsets_partition INT NOT NULL: Partition of __consumer_offsets
log_offset BIGINT NOT NULL: Offset of the record in that partition's log
log_timestamp TIMESTAMP: Log time of the record; null: the record has none
offset_delta INT: log_offset minus its batch's base offset; null: message format 0 or 1, or out of quarantine
group_id STRING NOT NULL: Group
topic STRING NOT NULL: Topic
partition INT NOT NULL: Partition of the topic
committed_offset BIGINT: Offset that the group committed; null: tombstone
leader_epoch INT: Leader epoch of the last record consumed; null: not given
metadata STRING: Metadata text of the client, '' is normal; null: tombstone
commit_timestamp TIMESTAMP: Time of the commit; null: tombstone, none, or outside the years 1 to 9999
expire_timestamp TIMESTAMP: When it will expire (clients before 2.1); null: not given, or outside the years 1 to 9999
topic_id STRING: Topic id; null: not logged
record_type SMALLINT NOT NULL: Type of the record: 0 or 1
value_version SMALLINT: Version of the value; null: tombstone
producer_id BIGINT: Producer; null: none
producer_epoch SMALLINT: Producer epoch; null: none
is_transactional BOOLEAN NOT NULL: The record is part of a transaction
outcome STRING: committed or aborted; null: no transaction, or its marker is outside the range that wrote the row (view
  offset_history completes it). committed does not mean that it became the committed offset
marker_offset BIGINT: Offset of the marker that ended the transaction; null: no transaction, or the marker is outside
  that range
raw_key BINARY: The key's bytes, only if the columns do not have all of it
raw_value BINARY: The value's bytes, only if the columns do not have all of it

history group_records (offsets_partition, log_offset): Record of types 2 to 23: groups and members
audit_id, offsets_partition, log_offset, log_timestamp, offset_delta of offset_commits
record_type SMALLINT NOT NULL: Type of the record: 2 to 23
record_name STRING NOT NULL: Kafka's name of the type: GroupMetadata, ConsumerGroupMemberMetadata, ...
group_id STRING NOT NULL: Group
member_id STRING: Member in the record's key; null: the record concerns the group
regular_expression STRING: Regular expression in the record's key; null: another type
value_version SMALLINT: Version of the value; null: tombstone
value STRING: Value as JSON text: keys as in Kafka's message files, bytes as base64, a protocol blob as an object or,
  where it cannot be read, as base64 under its key with Raw added; null: tombstone
producer_id, is_transactional, raw_key, raw_value of offset_commits

history transaction_markers (offsets_partition, log_offset): Control record: the end of a transaction
audit_id, offsets_partition, log_offset, log_timestamp of offset_commits
producer_id BIGINT: Producer whose transaction it ends; null: none
producer_epoch SMALLINT: Producer epoch; null: none
coordinator_epoch INT: Epoch of the transaction coordinator; null: not a transaction's end, or unreadable
control_type SMALLINT NOT NULL: Type of the control record: 0 abort, 1 commit
outcome STRING: committed or aborted; null: neither
transaction_start_offset BIGINT: The producer's first transactional record after its previous marker; null: none
offset_count INT: Offsets in the transaction, without those in quarantine when the marker was read; null: neither
  committed nor aborted
group_ids ARRAY<STRING>: Groups whose offsets were counted in it; null: neither committed nor aborted

history quarantine (offsets_partition, log_offset, reason): Record or batch that could not be used
audit_id, offsets_partition, log_offset, log_timestamp of offset_commits
record_count INT NOT NULL: 1 for a record; a batch's claimed count; 0 if another table counts it
record_type SMALLINT: Type in the key; null: cannot be read
record_name STRING: Kafka's name of the type; null: unknown
group_id STRING: Group in the key; null: cannot be read
topic STRING: Topic in the key; null: none, or cannot be read
partition INT: Partition in the key; null: none, or cannot be read
value_version SMALLINT: Version of the value; null: none, or cannot be read
producer_id BIGINT: Producer; null: none
is_transactional BOOLEAN: The record is part of a transaction; null: a whole batch, or a record of another table
reason STRING NOT NULL: unknown_record_type, unknown_value_version, truncated, empty_value, null_key, corrupt_batch, or
  load_would_fail: a record that is in its own table, and at which a coordinator's load would have failed
detail STRING NOT NULL: The problem, in one sentence that a person can act on
coordinator_fails BOOLEAN NOT NULL: A coordinator of the chosen release would refuse to load here; at a corrupt batch it
  may, as it checks no CRC
file STRING: Segment file; null: read from a cluster
file_position BIGINT: Byte in the segment at which its batch starts; null: read from a cluster
raw_key BINARY: Key's bytes; null: none, or a whole batch (which is in raw_value)
raw_value BINARY: Value's bytes, or the batch's, at most 1 MiB; null: none
resolved_by BIGINT: Audit that decoded it later; null: none has

history group_versions (offsets_partition, log_offset, group_id): State of a group after a record changed it
audit_id, offsets_partition, log_offset, log_timestamp of offset_commits
is_removed BOOLEAN NOT NULL: The record removed the group; the columns after group_id are then null
group_id STRING NOT NULL: Group
nullable columns of groups but audit_id, offsets_partition, group_id, topology, stored_description_epoch, log_offset

history group_member_versions (offsets_partition, log_offset, group_id, member_id): State of a member after a record
  changed it
audit_id, offsets_partition, log_offset, log_timestamp of offset_commits
is_removed BOOLEAN NOT NULL: The record removed the member; the columns after member_id are then null
group_id STRING NOT NULL: Group
member_id STRING NOT NULL: Member
nullable columns of group_members but audit_id, offsets_partition, group_id, member_id, user_data, user_data_json,
  log_offset

history group_events (offsets_partition, log_offset, event_index): Something that happened to a group
audit_id, offsets_partition, log_offset, log_timestamp of offset_commits
event_index INT NOT NULL: Number of the event among those with its log offset, from 0 on
event_timestamp TIMESTAMP: Commit time if an offset moved outside transactions; else log_timestamp
group_id STRING NOT NULL: Group
group_type STRING: classic, consumer, share or streams, after the event; null: the group does not exist (any more)
event STRING NOT NULL: group_created, state_changed, generation_changed (classic generation or group epoch),
  member_joined, member_left, member_replaced (a static member under another member id, without a rebalance of its own),
  assignment_changed (a member that stayed), group_type_changed, group_removed, offset_rewound, offset_skipped (rose
  while the group had no members), offset_removed, offset_restarted (first commit after its removal; a lower offset:
  records are read again, a higher one: records are never read), offset_unset (a negative offset was committed, which
  clients take for none), topic_recreated
member_id STRING: Member; null: the event does not concern a single member
topic STRING: Topic; null: the event does not concern a topic
partition INT: Partition of the topic; null: the event does not concern a single partition
offset_before BIGINT: Committed offset before the event (offset_restarted: before the removal); null: none
offset_after BIGINT: Committed offset after the event; null: none
value_before STRING: State, type, generation, topic id or (member_replaced) member id before the event; an assignment as
  JSON; null: none
value_after STRING: The same after the event; null: none
cause STRING: Cause of a removal: expired, group_deleted, offset_deleted, topic_deleted or unknown; of a move:
  no_members (most likely an admin reset), self_assigned (the group has no protocol type: a restart of consumers that
  assign themselves, or a reset, the log cannot tell), with_members, transaction, topic_recreated or unknown; null:
  neither a removal nor a move
group_instance_id STRING: Instance id of the member; null: no single member, or not a static one
client_id STRING: Client id of a member that joined, left or replaced another; null: otherwise
client_host STRING: Its host; null: as client_id
overdue_since TIMESTAMP: Removal whose cause is unknown, because expiry by the retention was due more than a day
  earlier: since when it was; null: otherwise

history group_traffic (audit_id, offsets_partition, group_id, hour): Records and bytes that an audit read of a group, by
  hour of log time
audit_id, offsets_partition, group_id of offset_commits
hour TIMESTAMP: Start of the hour of log time; null: records without a time
commits BIGINT NOT NULL: Offset commits, transactional ones included
tombstones BIGINT NOT NULL: Offset tombstones
transactional_commits BIGINT NOT NULL: Offset commits in transactions, whatever their outcome
other_records BIGINT NOT NULL: Records of other types
bytes BIGINT NOT NULL: Bytes of these records' keys and values

history topic_offsets (audit_id, topic, partition): Log start and end of a topic's partition with committed offsets,
  from an audit of a live cluster
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
topic STRING NOT NULL: Topic with committed offsets, to which members subscribe, or with an offset removed for an
  unknown cause
topic_id STRING: Its topic id in Kafka's text form; null: the cluster did not report it (or has none)
partition INT NOT NULL: Partition of the topic, or of a committed offset whose partition does not exist
log_start_offset BIGINT: First offset that the partition still had; null: status is not ok
log_end_offset BIGINT: High watermark, where consumers stop; null: status is not ok
status STRING NOT NULL: ok; unknown_topic: the cluster has no such topic or partition (no other status proves that);
  not_authorized: DESCRIBE on the topic is denied; unavailable: no leader, or another error
seen_at TIMESTAMP NOT NULL: When the audit asked the brokers

history cluster_facts (audit_id, kind, name, broker, group_id): Fact that a live cluster reported to an audit:
  configurations that concern coordinators (of the leaders of offsets partitions, and those set for single groups),
  feature levels, and these leaders. An audit of segments with such an option repeats the last facts with it
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
kind STRING NOT NULL: broker_config, group_config, feature or leader
name STRING: Kafka's name of the configuration or feature; leader: number of the offsets partition; null: the
  configuration of the group, or of all groups, could not be read
value STRING: Value of the configuration, level of the feature, or host:port of the leader; null: unknown
source STRING: set: for broker, cluster or group; default: Kafka's; option: of kgroups audit; null: a feature, a leader,
  or unknown
broker INT: Broker that has the configuration, or leads the offsets partition; null: not of a broker
group_id STRING: Group for which it was set; null: not of a group

history findings (audit_id, finding, group_id, topic, partition, member_id, producer_id, offsets_partition, log_offset):
  Finding of an audit
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
finding STRING NOT NULL: Name of the finding, from a closed set
severity STRING NOT NULL: error: something fails or is lost; warning: it may; notice: worth knowing
group_id STRING: Group; null: not about one group
topic STRING: Topic; null: not about one topic
partition INT: Partition of the topic; null: not about one partition
member_id STRING: Member; null: not about one member
producer_id BIGINT: Producer id; null: not about one producer
offsets_partition INT: Partition of __consumer_offsets; null: not about one of them
log_offset BIGINT: Log offset of the record that shows it; null: no single record does
since TIMESTAMP: Start of the condition; null: unknown
detail STRING NOT NULL: The problem, why it matters, what to do

current groups (offsets_partition, group_id): Group that exists
audit_id, offsets_partition, group_id of offset_commits
group_type STRING NOT NULL: classic, consumer, share or streams
state STRING NOT NULL: State in Kafka's words, from the log alone (PreparingRebalance is never logged)
is_simple BOOLEAN NOT NULL: The group has only offsets: no member ever joined it, or its metadata is gone
protocol_type STRING: Classic: consumer, connect, ...; null: none (simple groups)
protocol STRING: Classic: name of the chosen protocol, as range; null: none or not classic
generation INT: Classic: generation; null: not classic
group_epoch INT: Consumer, share, streams: group epoch; null: classic
assignment_epoch INT: Consumer, share, streams: epoch of the target assignment; null: none yet, or classic
leader STRING: Classic: member id of the leader; null: none or not classic
current_state_timestamp TIMESTAMP: Classic: time of the state in the group's own record; null: not logged
state_since TIMESTAMP: Log time of the record that caused the state; null: that record has no time
member_count INT NOT NULL: Members of the group
metadata_hash BIGINT: Consumer, share, streams: hash of the subscribed topics' metadata; null: not logged
resolved_regex_topics MAP<STRING, ARRAY<STRING>>: Topics by subscribed regular expression; null: none
topology STRING: Streams: topology as JSON text; null: none
stored_description_epoch INT: Streams (4.4): topology epoch that the topology description plugin holds, -2: uncertain;
  null: none
is_misplaced BOOLEAN: The group's name does not hash to this partition; null: number of partitions unknown
log_offset BIGINT: Newest record about the group or its members; null: the group has only offsets

current group_members (offsets_partition, group_id, member_id): Member of a group
audit_id, offsets_partition, group_id of offset_commits
member_id STRING NOT NULL: Member
group_instance_id STRING: group.instance.id of a static member; null: dynamic
client_id STRING: client.id; null: not logged
client_host STRING: Host as the broker saw it; null: not logged
rack_id STRING: Rack; null: not logged
rebalance_timeout_ms INT: Rebalance timeout; null: not logged
session_timeout_ms INT: Classic protocol: session timeout; null: not logged
member_epoch INT: Member epoch, -2: a static member that is away; null: classic, or none yet
previous_member_epoch INT: Previous member epoch; null: classic, or none yet
member_state STRING: STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS, UNREVOKED_TASKS, UNRELEASED_TASKS, UNKNOWN;
  null: classic
uses_classic_protocol BOOLEAN: Uses the classic protocol; null: share and streams, which have only one
server_assignor STRING: Assignor that the member requested; null: none
subscribed_topics ARRAY<STRING>: Subscribed topic names; null: unknown, its subscription cannot be read
subscribed_regex STRING: Subscribed regular expression; null: none
assigned_partitions ARRAY<assigned_partition>: Assigned partitions; null: unknown, or streams
pending_revocation_partitions ARRAY<assigned_partition>: Partitions pending revocation; null: classic or streams
target_partitions ARRAY<assigned_partition>: Its target assignment; null: classic or streams
assigned_tasks ARRAY<task>: Streams: assigned tasks; null: not streams
target_tasks ARRAY<task>: Streams: tasks of its target assignment; null: not streams
pending_revocation_tasks ARRAY<task>: Streams: tasks pending revocation; null: not streams
topology_epoch INT: Streams: epoch of the member's topology; null: not streams
process_id STRING: Streams: process id; null: not streams
user_data BINARY: User data of its subscription; null: none
user_data_json STRING: The same as JSON text, of the assignors sticky, cooperative-sticky and stream (Kafka Streams):
  generation, previous partitions, process id, tasks; null: none, or of another assignor
log_offset BIGINT: Newest record about the member

current committed_offsets (offsets_partition, group_id, topic, partition): Committed offset
audit_id, offsets_partition, group_id, topic, partition of offset_commits
committed_offset BIGINT NOT NULL: Offset that the group committed: the next one that it will read
leader_epoch INT: Leader epoch of the last record consumed; null: not given
metadata STRING NOT NULL: Metadata text of the client; '' is normal
commit_timestamp TIMESTAMP: Time of the commit, or the nearest time in the years 1 to 9999; null: none
expire_timestamp TIMESTAMP: When it will expire (clients before 2.1), or the nearest time in the years 1 to 9999; null:
  not given
topic_id, record_type of offset_commits
value_version SMALLINT NOT NULL: Version of the record's value
log_offset BIGINT NOT NULL: Record that committed it
is_orphan BOOLEAN NOT NULL: No group of that id exists: the broker neither returns nor expires it

current pending_offsets (offsets_partition, producer_id, group_id, topic, partition): Offset inside an open transaction
audit_id, offsets_partition of offset_commits
producer_id BIGINT NOT NULL: Producer id of the transaction
producer_epoch, group_id, topic, partition of offset_commits
committed_offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id of committed_offsets
log_offset BIGINT NOT NULL: Record that holds it
transaction_start_offset BIGINT: Transaction's first record on this partition; null: the record has a producer but is in
  no transaction
open_since TIMESTAMP: Log time of that first record; null: no transaction, or no time
transactional_id STRING: transactional.id of the producer; null: __transaction_state was not read

current open_transactions (offsets_partition, producer_id): Transaction that is open on a partition of
  __consumer_offsets, with or without offsets left in it
audit_id, offsets_partition, producer_id, producer_epoch of pending_offsets
transaction_start_offset BIGINT NOT NULL: Its first record after its last marker
open_since TIMESTAMP: Log time of that record; null: it has none
offset_count INT NOT NULL: Offsets in the transaction so far
group_ids ARRAY<STRING> NOT NULL: Groups whose offsets are in it
transactional_id STRING: transactional.id of the producer; null: __transaction_state was not read
is_hanging BOOLEAN: By Kafka's rule, as of the audit: open for longer than 15 minutes, and the transaction coordinator
  will not end it, or __transaction_state was not read; null: open_since is null

current offset_expiry (offsets_partition, group_id, topic, partition): Whether and when a committed offset expires, and
  why
audit_id, offsets_partition of offset_commits
as_of TIMESTAMP NOT NULL: Time at which expiry was judged
retention_ms BIGINT NOT NULL: Retention that was used
group_id, topic, partition of offset_commits
committed_offset BIGINT NOT NULL: The committed offset
log_offset BIGINT NOT NULL: Record that committed it
decision STRING NOT NULL: expire or keep, at the broker's next check after as_of
reason STRING NOT NULL: The first that applies: orphan, share_group, group_active, subscription_unknown, subscribed,
  pending_transaction, expire_timestamp_passed, before_expire_timestamp, retention_passed, within_retention;
  clean_up_fails instead of the last four where a share group's offsets end the clean-up (4.0 and 4.4)
base STRING: The start of the retention period: commit_timestamp, current_state_timestamp, expire_timestamp; null: none
base_timestamp TIMESTAMP: Time from which retention counts; null: none
expires_at TIMESTAMP: Earliest moment, if the group stays as it is; null: not if it stays as it is
expires_at_if_empty TIMESTAMP: The same if the group's last member left at as_of; null: not even then

current group_expiry (offsets_partition, group_id): Whether and when a group is deleted, and why
audit_id, offsets_partition, as_of, retention_ms, group_id of offset_expiry
group_type STRING NOT NULL: classic, consumer, share or streams
state STRING NOT NULL: State in Kafka's words
decision STRING NOT NULL: delete or keep, at the broker's next check after as_of
reason STRING NOT NULL: empty_and_nothing_left (delete); has_members, offsets_left, open_transaction, share_group,
  clean_up_fails, topology_description
deletes_at TIMESTAMP: Earliest moment, if the group stays as it is; null: not if it stays as it is
writes_tombstone BOOLEAN NOT NULL: The broker writes a tombstone when it deletes the group

current topics (topic_id): Topic id from the log or the cluster, and its name
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
topic_id STRING NOT NULL: Topic id in Kafka's text form
topic STRING NOT NULL: Name of the topic
seen_log_timestamp TIMESTAMP: Log time of the newest record with this id; null: none, or only the cluster reported it
source STRING NOT NULL: offset_commit, group_record or cluster

history share_group_state_records (state_partition, log_offset): Record of __share_group_state: snapshots and updates of
  share partitions
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
state_partition INT NOT NULL: Partition of that log
log_offset, log_timestamp of offset_commits
record_type SMALLINT NOT NULL: Type of the record: 0 snapshot, 1 update
record_name STRING NOT NULL: Kafka's name of the type: ShareSnapshot, ShareUpdate
group_id STRING NOT NULL: Share group
topic_id STRING NOT NULL: Topic id in Kafka's text form
partition, value_version of offset_commits
value STRING: Value as JSON text, keys as in Kafka's message files; null: tombstone
layout STRING: 4.0: early access; ?4.0: the bytes fit both; null: the layout of 4.1 and newer, or a tombstone
raw_key, raw_value of offset_commits

history transaction_state_records (state_partition, log_offset): Record of __transaction_state: the state of a
  transactional id
audit_id, state_partition, log_offset, log_timestamp of share_group_state_records
record_type SMALLINT NOT NULL: Type of the record: 0
record_name STRING NOT NULL: Kafka's name of the type: TransactionLog
transactional_id STRING NOT NULL: transactional.id
value_version, value, raw_key, raw_value of share_group_state_records

history state_quarantine (log, state_partition, log_offset, reason): Record or batch of __share_group_state or
  __transaction_state that could not be used
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
log STRING NOT NULL: __share_group_state or __transaction_state
state_partition, log_offset, log_timestamp of share_group_state_records
record_count, record_type, record_name of quarantine
group_id STRING: Share group in the key; null: none, or cannot be read
topic_id STRING: Topic id in the key; null: none, or cannot be read
partition INT: Partition in the key; null: none, or cannot be read
transactional_id STRING: transactional.id in the key; null: none, or cannot be read
value_version SMALLINT: Version of the value; null: none, or cannot be read
reason STRING NOT NULL: As in quarantine
detail, coordinator_fails, file, file_position, raw_key, raw_value of quarantine

history state_events (log, state_partition, log_offset, event): Something that happened to a share partition or to a
  transactional id
audit_id, log, state_partition, log_offset, log_timestamp of state_quarantine
event STRING NOT NULL: share_partition_initialized, share_offset_reset (by Admin), share_offsets_deleted;
  transaction_timed_out, producer_fenced (not of transactions version 2, where a fence looks like the producer's own
  abort)
group_id STRING: Share group; null: the event concerns a transactional id
topic_id STRING: Topic id; null: the event concerns a transactional id
partition INT: Partition of the topic; null: the event concerns a transactional id
offset_before BIGINT: Start offset before the event; null: unknown, not set, or no share partition
offset_after BIGINT: Start offset after the event; null: unknown, not set, or no share partition
state_epoch_before INT: State epoch before the event; null: unknown, not set, or no share partition
state_epoch_after INT: State epoch after the event; null: unknown, not set, or no share partition
transactional_id STRING: transactional.id; null: the event concerns a share partition
producer_id BIGINT: Producer whose transaction was open; null: the event concerns a share partition
producer_epoch SMALLINT: Producer epoch; null: the event concerns a share partition
start_timestamp TIMESTAMP: When that transaction began; null: unknown, or no transaction
timeout_ms INT: Timeout of the transaction; null: the event concerns a share partition

current share_partitions (group_id, topic_id, partition): Share partition: the share coordinator's stored state, and the
  group coordinator's list
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
state_partition INT: Partition of __share_group_state; null: the group's coordinator lists it, and it has no state
group_id, topic_id of share_group_state_records
topic STRING: Name of the topic; null: not known
partition INT NOT NULL: Partition of the topic
start_offset BIGINT: Share-partition start offset; null: not set yet, or no state
state_epoch INT: State epoch: the group epoch at which it was initialized; null: no state
leader_epoch INT: Leader epoch of the share partition; null: no state
snapshot_epoch INT: Number of the newest snapshot; null: no state
delivery_complete_count INT: Records after the start offset that need no more delivery (4.2 and newer); null: unknown
init_state STRING: initializing, initialized, deleting, as the group's coordinator lists it (record type 15 of
  __consumer_offsets); null: it does not list it
create_timestamp TIMESTAMP: When the state was created; null: unknown
write_timestamp TIMESTAMP: When the newest snapshot was written; null: unknown
log_timestamp TIMESTAMP: Log time of the newest record; null: none, or no state
log_offset BIGINT: Newest record about it; null: no state

current share_batches (state_partition, group_id, topic_id, partition, first_offset): Records of a share partition with
  one stored state, which are not past its start offset
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
state_partition INT NOT NULL: Partition of __share_group_state
group_id, topic_id, topic, partition of share_partitions
first_offset BIGINT NOT NULL: First offset of the batch
last_offset BIGINT NOT NULL: Last offset of the batch
delivery_state STRING NOT NULL: available, acknowledged, archived or, since 4.4, archiving (given up, and not yet in the
  dead-letter queue). Records in flight and the end of the window are never stored
delivery_count INT NOT NULL: Number of deliveries of its records
attempts_left INT: Deliveries that the group's share.delivery.count.limit still allows, else the brokers'
  group.share.delivery.count.limit; null: acknowledged, archiving or archived, or the limit is unknown
archived_as STRING: attempts_used_up, rejected_or_gap; null: neither archiving nor archived, or the limit is unknown

current transactional_ids (state_partition, transactional_id): Transactional id of the transaction coordinator
audit_id BIGINT NOT NULL: The audit that wrote the row (table audits)
state_partition INT NOT NULL: Partition of __transaction_state
transactional_id STRING NOT NULL: transactional.id
producer_id BIGINT: Current producer id; null: none
producer_epoch SMALLINT: Producer epoch; null: none
previous_producer_id BIGINT: Producer id of the last transaction, if it was different; null: none
next_producer_id BIGINT: Producer id that takes over when the transaction ends; null: none
next_producer_epoch SMALLINT: Epoch of the next producer; null: none
state STRING NOT NULL: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead,
  PrepareEpochFence
timeout_ms INT NOT NULL: transaction.timeout.ms of the producer; 2147483647: two-phase, no timeout
topic_partitions ARRAY<topic_partition>: Partitions to which the open transaction has written, __consumer_offsets
  included; in order
start_timestamp TIMESTAMP: When the transaction began; null: none is open, or unknown
last_update_timestamp TIMESTAMP: When the state last changed; null: unknown
expires_at TIMESTAMP: Earliest moment at which the coordinator removes an unused id (transactional.id.expiration.ms);
  null: never in this state
log_offset BIGINT NOT NULL: Newest record about it

ledger audits (audit_id, status): The ledger of audits
audit_id BIGINT NOT NULL: Number of the audit, never reused
status STRING NOT NULL: running: claimed; finished: everything it wrote counts; abandoned: another audit took over
owner STRING NOT NULL: The process that runs it: host, process id, start time, a uuid
started_at TIMESTAMP NOT NULL: When it claimed its number
finished_at TIMESTAMP: When it finished; null: running
as_of TIMESTAMP: Time at which expiry was judged; null: running
retention_ms BIGINT: Retention that was used; null: running
retention_source STRING: option, broker or default; null: running
release_version STRING: Kafka release whose rules were used; null: running
rules_version INT: Version of these rules; null: running
state_format INT: Version of the saved state's form; null: running
source STRING: segments, kafka or tables (a rebuild); null: running
cluster_id STRING: Cluster id of the log; null: unknown
software_version STRING: Version of kgroups-spark
lake_version INT NOT NULL: Version of the lake's layout
newest_log_timestamp TIMESTAMP: Newest time in the logs so far; null: none
partitions ARRAY<partition_progress>: How far each partition was read; null: running
rows_added MAP<STRING, BIGINT>: Rows added to history, by table; null: running
quarantined MAP<STRING, BIGINT>: Rows of quarantine, by reason; null: running
record_counts ARRAY<record_count>: Records read, by type and version; null: running
notes ARRAY<STRING>: Notes for people: missing partitions, re-read ones, rebuilt state
replaced_ranges ARRAY<replaced_range>: Ranges read by this or an earlier audit and later cut off the log; null: none
newest_audits MAP<STRING, BIGINT>: Last audit that wrote to each table (not checkpoints); null: running
removed_up_to BIGINT: maintain --keep removed findings of audits up to this one; null: none

internal checkpoints (audit_id, log, offsets_partition, log_offset, reason, entry_type, group_id, topic, partition,
  producer_id, payload): Internal: states of shards from which a replay goes on; its form changes without notice
audit_id, offsets_partition of offset_commits
log STRING: The other log of the partition, of which only the log offset is saved; null: __consumer_offsets
log_offset BIGINT NOT NULL: The state is that before the records from this log offset on
reason STRING NOT NULL: night: at the end of the audit's log; keep: history below it may be reduced; reread: entries
  that differed when the log was read again
entry_type STRING NOT NULL: The kind of the entry; known only to the coordinator's save and load
group_id STRING: Group; null: the entry does not concern a group
payload STRING: JSON text; null: the entry is an offset, or was removed
state_format INT NOT NULL: Form of the entry
release_version STRING NOT NULL: Kafka release by whose rules it was made
rules_version INT NOT NULL: Version of these rules
topic STRING: Topic
partition INT: Its partition
record_offset BIGINT: Log offset of the record that committed it
record_type SMALLINT: Type of this record
value_version SMALLINT: Version of its value; null: pending tombstone
producer_id BIGINT: Producer whose transaction holds it; null: it is committed
producer_epoch SMALLINT: Epoch of the producer that wrote it; null: none
committed_offset BIGINT: The offset; null: pending tombstone
leader_epoch INT: Its leader epoch; null: none
metadata STRING: Its metadata; null: pending tombstone
commit_timestamp BIGINT: When it was committed, ms; null: none
expire_timestamp BIGINT: When it expires, ms, set by old clients; null: not set
topic_id STRING: Topic id; null: none

internal previous_offset_expiry (offsets_partition, group_id, topic, partition): Internal: the previous audit's expiry
  decisions, for the view expiry_outcomes
columns of offset_expiry
decided_by BIGINT NOT NULL: The previous audit, which decided it; audit_id kept it

internal state_log_state (audit_id, log, state_partition, entry_type, payload): Internal: the state of other logs that
  an audit goes on from; its form changes without notice
audit_id, log, state_partition of state_quarantine
entry_type STRING NOT NULL: The kind of the payload; known only to the coordinator's save and load
group_id STRING: Group; null: the entry does not concern a group
payload STRING NOT NULL: JSON text
"""

# The reason why a state was saved. night: the next audit goes on from it. keep: `maintain --keep` has reduced the
# history below it, and a replay begins with it. reread: a partition was read again, and these entries of its state
# were corrected from its log.
NIGHT, KEEP, REREAD = "night", "keep", "reread"

# Rows of `quarantine` for records that are in other tables and at which a coordinator's load fails.
MISREAD_COLUMNS = (
    *("log_offset", "log_timestamp", "record_type", "record_name"),
    *("group_id", "value_version", "producer_id", "detail"),
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
