"""Replay of `__share_group_state` and `__transaction_state`: (state, records in log order) -> rows by table, new state.

One partition is one shard, as in Kafka. This module uses no Spark, no files and no clock. R2 holds: a log that is cut
anywhere, and saved and loaded there, gives the rows of the whole log.

A state's rows are those of its shard (share_coordinator, transaction_coordinator), and

    gone    a key that was no longer in the log when the partition was read again from its start (R6), or none for all
            keys of a log that began after the last offset read; and the log offset up to which it is gone: history
            still has its records, and a replay of history drops the key there
    settings    the last known configuration of the cluster (Settings): an entry without a group, and one of each group
                with a limit of its own
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from kgroups_spark.coordinator.releases import NEWEST, Release, release
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.messages.coordinator_logs import SHARE_LOG, CoordinatorLog
from kgroups_spark.messages.coordinator_records import CoordinatorRecord
from kgroups_spark.share_coordinator.rows import ShareBatchRow, ShareEvent, SharePartitionRow
from kgroups_spark.share_coordinator.rules import ShareRules, share_rules
from kgroups_spark.share_coordinator.shard import ShareCoordinatorShard, SharePartitionKey
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.transaction_coordinator.rows import TransactionalIdRow, TransactionEvent
from kgroups_spark.transaction_coordinator.rules import (
    TRANSACTIONAL_ID_EXPIRATION_MS,
    TransactionRules,
    transaction_rules,
)
from kgroups_spark.transaction_coordinator.shard import TransactionCoordinatorShard

GONE, SETTINGS = "gone", "settings"
# Saved entries that do not come from records.
KEPT = (GONE, SETTINGS)
Key = tuple[Any, ...]
ALL_KEYS: Key = ()


class StateRecord(NamedTuple):
    """A record of either log. `key`: the key's fields in order. `value` None: a tombstone. `log_timestamp`: epoch
    ms."""

    log_offset: int
    log_timestamp: int | None
    record_type: int
    key: Key
    value_version: int | None
    value: dict[str, Any] | None
    layout: str = ""


class Settings(NamedTuple):
    """The settings of both coordinators in the cluster's configuration; None: unknown. `limits_of_groups`: groups with
    a delivery count limit of their own, which may be unknown, too."""

    delivery_count_limit: int | None = None  # group.share.delivery.count.limit
    transactional_id_expiration_ms: int | None = None  # transactional.id.expiration.ms
    limits_of_groups: dict[str, int | None] | None = None  # share.delivery.count.limit

    def limit_of(self, group_id: str) -> int | None:
        """The most deliveries of a record to the group's consumers."""
        return (self.limits_of_groups or {}).get(group_id, self.delivery_count_limit)

    def or_else(self, other: Settings) -> Settings:
        """These; each that is unknown from `other`."""
        return self._replace(**{name: value for name, value in other._asdict().items() if getattr(self, name) is None})


def state_record(log_offset: int, log_timestamp: int | None, record: CoordinatorRecord) -> StateRecord:
    """The record in the form for a replay."""
    key = tuple(record.key.values())
    return StateRecord(
        log_offset, log_timestamp, record.record_type, key, record.value_version, record.value, record.layout
    )


def rules_of(log: CoordinatorLog, of: Release) -> ShareRules | TransactionRules:
    """The release's rules for the log; the newest release's if the release has no such log."""
    rules = share_rules if log is SHARE_LOG else transaction_rules
    found = rules(of) or rules(release(NEWEST))
    assert found is not None
    return found


class StateReplay:
    """One shard of either log, from its saved rows on. `reporting`: it records events."""

    def __init__(
        self,
        log: CoordinatorLog,
        of: Release,
        partition: int,
        state: Iterable[StateRow] = (),
        *,
        reporting: bool = True,
    ) -> None:
        self.log = log
        self.partition = partition
        rows = list(state)
        self._gone = [row for row in rows if row.entry_type == GONE]
        saved = [row for row in rows if row.entry_type not in KEPT]
        reported = {row.group_id: orjson.loads(row.payload) for row in rows if row.entry_type == SETTINGS}
        of_groups = {group_id: payload[0] for group_id, payload in reported.items() if group_id is not None}
        self._settings = Settings(*reported.get(None, ()))._replace(limits_of_groups=of_groups or None)
        rules = rules_of(log, of)
        self._shard: ShareCoordinatorShard | TransactionCoordinatorShard
        if isinstance(rules, ShareRules):
            self._shard = ShareCoordinatorShard.load(rules, partition, saved, reporting=reporting)
        else:
            self._shard = TransactionCoordinatorShard.load(rules, partition, saved, reporting=reporting)

    def reporting(self) -> StateReplay:
        """The same shard, which records events from now on."""
        self._shard.reporting = True
        return self

    def replay(self, record: StateRecord) -> str | None:
        """Replays the record. Returns the reason if a coordinator's load fails at it; then nothing has changed."""
        offset, time, record_type, key, version, value, layout = record
        try:
            if isinstance(self._shard, ShareCoordinatorShard):
                group_id, topic_id, partition = key
                self._shard.replay(offset, time, record_type, group_id, topic_id, partition, value, layout)
            else:
                (transactional_id,) = key
                self._shard.replay(offset, time, transactional_id, version, value)
        except ReplayFailure as failure:
            return str(failure)
        return None

    def keys(self) -> set[Key]:
        if isinstance(self._shard, ShareCoordinatorShard):
            return {tuple(key) for key in self._shard.share_partitions}
        return {(key,) for key in self._shard.transactional_ids}

    def drop(self, key: Key) -> None:
        """Removes the state of a key that the log no longer has; of all keys: ()."""
        if key == ALL_KEYS:
            for each in self.keys():
                self.drop(each)
        elif isinstance(self._shard, ShareCoordinatorShard):
            self._shard.share_partitions.pop(SharePartitionKey(*key), None)
        else:
            self._shard.transactional_ids.pop(key[0], None)

    def report_gone(self, keys: Iterable[Key], log_offset: int) -> None:
        """Records that these keys were no longer in the log below that offset."""
        for key in sorted(keys):
            self._gone.append(StateRow(GONE, None, orjson.dumps([log_offset, *key]).decode()))

    def start_again(self, log_offset: int) -> None:
        """Removes all keys, and records that they were no longer in the log below that offset: by one entry, because
        brokers delete share state between any two audits."""
        if self.keys():
            self.report_gone([ALL_KEYS], log_offset)
            self.drop(ALL_KEYS)

    def keep(self, other: StateReplay) -> None:
        """Takes over the facts that another replay of the partition keeps besides its state."""
        self._gone, self._settings = list(other._gone), other._settings

    def gone(self) -> list[tuple[int, Key]]:
        """(log offset, key) of keys that were no longer in the log, in the log's order."""
        found = [orjson.loads(row.payload) for row in self._gone]
        return sorted((offset, tuple(key)) for offset, *key in found)

    def save(self) -> Iterator[StateRow]:
        yield from self._shard.save()
        yield from self._gone
        if self._settings != Settings():
            yield StateRow(SETTINGS, None, orjson.dumps(list(self._settings[:2])).decode())
        for group_id, limit in sorted((self._settings.limits_of_groups or {}).items()):
            yield StateRow(SETTINGS, group_id, orjson.dumps([limit]).decode())

    def tables(self, audit_id: int, settings: Settings | None = None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of the current tables, and of the state. The last known settings stand for those that are unknown.
        `share_partitions` lack topic and init_state, which only the group coordinator has (share_listing.py)."""
        self._settings = settings = (settings or Settings()).or_else(self._settings)
        if isinstance(self._shard, ShareCoordinatorShard):
            partitions = self._shard.share_partition_rows()
            yield "share_partitions", _rows("share_partitions", SharePartitionRow._fields, partitions, audit_id)
            batches = self._shard.share_batch_rows(settings.limit_of)
            yield "share_batches", _rows("share_batches", ShareBatchRow._fields, batches, audit_id)
        else:
            expiration_ms = settings.transactional_id_expiration_ms or TRANSACTIONAL_ID_EXPIRATION_MS
            rows = self._shard.transactional_id_rows(expiration_ms)
            columns = TransactionalIdRow._fields
            yield "transactional_ids", _rows("transactional_ids", columns, map(_as_columns, rows), audit_id)
        place = {"log": self.log.topic, "state_partition": self.partition}
        yield "state_log_state", _rows("state_log_state", StateRow._fields, self.save(), audit_id, **place)

    def take_events(self, audit_id: int) -> pa.RecordBatch:
        """Rows of state_events since the last call."""
        is_share = self.log is SHARE_LOG
        fields, no_fields = (ShareEvent._fields, _OF_TRANSACTIONS) if is_share else (_TRANSACTION_EVENT, _OF_SHARES)
        events = ([getattr(event, name) for name in fields] for event in self._shard.take_events())
        place = {"log": self.log.topic, "state_partition": self.partition}
        return _rows("state_events", fields, events, audit_id, **place, **dict.fromkeys(no_fields))


# The columns of state_events that an event has, and those that it lacks.
_OF_TRANSACTIONS = ("transactional_id", "producer_id", "producer_epoch", "start_timestamp", "timeout_ms")
_OF_SHARES = tuple(name for name in ShareEvent._fields if name not in TransactionEvent._fields)
_TRANSACTION_EVENT = tuple(name for name in TransactionEvent._fields if name != "topic_partitions")


def replay_history(
    shard: StateReplay, records: Iterable[StateRecord], gone: Iterable[tuple[int, Key]]
) -> list[Failure]:
    """Replays a partition's records from history, in log order, and drops the keys of `gone` at their log offsets.
    Returns the records at which a load fails."""
    failures: list[Failure] = []
    waiting = sorted(gone)
    for record in records:
        while waiting and waiting[0][0] <= record.log_offset:
            shard.drop(waiting.pop(0)[1])
        if why := shard.replay(record):
            failures.append((record, why))
    for _, key in waiting:
        shard.drop(key)
    return failures


Failure = tuple[StateRecord, str]


def _as_columns(row: TransactionalIdRow) -> list[Any]:
    columns = row._asdict()
    columns["topic_partitions"] = [each._asdict() for each in row.topic_partitions]
    return list(columns.values())


def _rows(name: str, columns: tuple[str, ...], rows: Iterable[Any], audit_id: int, **constants: Any) -> pa.RecordBatch:
    return table_batch(name, columns, list(rows), audit_id=audit_id, **constants)
