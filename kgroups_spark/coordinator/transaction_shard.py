"""One shard of the transaction coordinator: the transactional ids of one partition of `__transaction_state`.

    shard = TransactionCoordinatorShard(transaction_rules(release("4.4")), state_partition=3)
    shard.replay(log_offset, log_timestamp, transactional_id, value_version, value)   in log order
    shard.transactional_id_rows(expiration_ms), .take_events()

Rules (TransactionLog.read, 4.3.1, and TransactionStateManager.loadTransactionMetadata):

1. A value replaces the state of its id; a tombstone removes the id.
2. In state Empty there are no partitions, whatever the value lists. In any other state the list may not be null.
3. An unknown state, or an unknown client's transaction version, ends the load: ReplayFailure, without any change.

It is pure: no Spark, no files, no clock. Events:

- transaction_timed_out: an open transaction is being aborted, with a new epoch, after its timeout. Never for two-phase
  transactions, which have no timeout.
- producer_fenced: it is being aborted before that, with a new epoch: another producer has initialized the same id, or
  Admin has fenced it. A producer of transactions version 2 takes a new epoch with every end, so the log does not
  distinguish a fence from its own abort, and there is no event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from kgroups_spark.coordinator.releases import Release, ReplayFailure
from kgroups_spark.coordinator.rows import none_if_unset
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.words import DAY_MS, LAST_MS, format_duration

# The rows of `transactional_ids`, and events of producers, as plain tuples. Times are epoch milliseconds.


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class TransactionalIdRow(NamedTuple):
    """A row of `transactional_ids`. `state_partition`: the partition of `__transaction_state`. Null for Kafka's -1."""

    state_partition: int
    transactional_id: str
    producer_id: int | None
    producer_epoch: int | None
    previous_producer_id: int | None  # of the last committed transaction, if TV2 took a new producer id
    next_producer_id: int | None  # promised to the producer; the record that ends the transaction takes it
    next_producer_epoch: int | None
    state: str  # as kafka-transactions describe prints it
    timeout_ms: int
    topic_partitions: list[TopicPartition]  # the partitions that the transaction has written to, sorted
    start_timestamp: int | None
    last_update_timestamp: int | None
    expires_at: int | None  # the earliest moment, if the id does not change; null: it does not expire in this state
    log_offset: int


class TransactionEvent(NamedTuple):
    """The coordinator's own act on a producer: one of EVENTS."""

    log_offset: int
    log_timestamp: int | None
    transactional_id: str
    event: str
    producer_id: int
    producer_epoch: int  # of the transaction that was open
    start_timestamp: int | None
    timeout_ms: int
    topic_partitions: list[TopicPartition]


EVENTS = ("transaction_timed_out", "producer_fenced")


# How each Kafka release loads `__transaction_state`: data only.
#
# Sources: TransactionLog and TransactionStateManager.loadTransactionMetadata of 0.11.0.0, 1.0.2, 1.1.1, 2.0.1, 2.3.1,
# 2.4.1, 2.8.2, 3.0.2 to 3.9.0, 4.0.2, 4.1.2, 4.2.1, 4.3.1, 4.4.0. A load that fails ends at that record, and the
# coordinator serves the ids that it had read until then ("Error loading transactions from transaction log" in the
# broker's log).


# transactional.id.expiration.ms, its default in every release.
TRANSACTIONAL_ID_EXPIRATION_MS = 7 * DAY_MS
# transaction.max.timeout.ms, its default in every release, and kafka-transactions find-hanging's.
MAX_TRANSACTION_TIMEOUT_MS = 900_000


class TransactionRules(NamedTuple):
    """The versions that one release reads, and the records that end its load."""

    newest_value_version: int = 1
    skips_unknown_types: bool = True  # KIP-915
    skips_unknown_value_versions: bool = True
    # Whether it reads the tags of version 1. Before KIP-890 they were unknown.
    reads_tags: bool = True

    def fails_at(self, reason: str) -> bool:
        """Whether its load ends at a record that cannot be decoded for that reason."""
        if reason == "unknown_record_type":
            return not self.skips_unknown_types
        return reason != "unknown_value_version" or not self.skips_unknown_value_versions


_V4_3 = TransactionRules()
_V4_0 = _V4_3._replace(skips_unknown_value_versions=False)
_V3_4_1 = _V4_0._replace(reads_tags=False)
_V0_11 = _V3_4_1._replace(newest_value_version=0, skips_unknown_types=False)
# The first version with these rules, newest first.
_SINCE = (((4, 3), _V4_3), ((4, 0), _V4_0), ((3, 4, 1), _V3_4_1), ((0, 11), _V0_11))


def transaction_rules(release: Release) -> TransactionRules | None:
    """The rules of a release. None: it has no transactions (before 0.11)."""
    return next((rules for first, rules in _SINCE if release.version >= first), None)


EMPTY, ONGOING, PREPARE_ABORT = "Empty", "Ongoing", "PrepareAbort"
# Kafka's TransactionState by id, with the names of the Admin API. Dead and PrepareEpochFence are never written.
STATES = {
    0: EMPTY,
    1: ONGOING,
    2: "PrepareCommit",
    3: PREPARE_ABORT,
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
# TransactionState.isExpirationAllowed; before 2.8 the same states by name (TransactionStateManager.shouldExpire).
EXPIRING_STATES = frozenset({EMPTY, "CompleteCommit", "CompleteAbort"})
# The timeout of a two-phase transaction (TransactionMetadata.isDistributedTwoPhaseCommitTxn, KIP-939).
TWO_PHASE_TIMEOUT_MS = (1 << 31) - 1
_TRANSACTION_VERSIONS = range(3)  # TransactionVersion: TV0 to TV2
_TV2 = 2
_UNSET = -1

Value = dict[str, Any]


class TransactionalId(NamedTuple):
    """The state of one transactional id, with Kafka's -1 for none, and its newest record."""

    producer_id: int
    producer_epoch: int
    previous_producer_id: int
    next_producer_id: int
    next_producer_epoch: int
    state: str
    timeout_ms: int
    topic_partitions: tuple[TopicPartition, ...]
    start_timestamp: int
    last_update_timestamp: int
    client_transaction_version: int
    log_offset: int

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS


class TransactionCoordinatorShard:
    """The ids of one partition of `__transaction_state`. `reporting`: keep events for `take_events`."""

    def __init__(self, rules: TransactionRules, state_partition: int, *, reporting: bool = False) -> None:
        self.rules = rules
        self.state_partition = state_partition
        self.reporting = reporting
        self.transactional_ids: dict[str, TransactionalId] = {}
        self._events: list[TransactionEvent] = []

    def replay(
        self,
        log_offset: int,
        log_timestamp: int | None,
        transactional_id: str,
        value_version: int | None,
        value: Value | None,
    ) -> None:
        """Replays a record of type 0; `value` None is a tombstone. Raises ReplayFailure if a load ends at it."""
        if value is None:
            self.transactional_ids.pop(transactional_id, None)
            return
        if value_version is not None and value_version > self.rules.newest_value_version:
            if self.rules.skips_unknown_value_versions:
                return
            raise ReplayFailure(f"Unknown version {value_version} from the transaction log message value")
        after = self._of_value(value, log_offset)
        before = self.transactional_ids.get(transactional_id)
        if self.reporting and before is not None and (event := _event(before, after)) is not None:
            at = (log_offset, log_timestamp, transactional_id, event)
            was = (before.producer_id, before.producer_epoch, none_if_unset(before.start_timestamp), before.timeout_ms)
            self._events.append(TransactionEvent(*at, *was, list(before.topic_partitions)))
        self.transactional_ids[transactional_id] = after

    def take_events(self) -> list[TransactionEvent]:
        """Events since the last call, in log order."""
        events, self._events = self._events, []
        return events

    def transactional_id_rows(
        self, expiration_ms: int = TRANSACTIONAL_ID_EXPIRATION_MS
    ) -> Iterator[TransactionalIdRow]:
        """Rows of `transactional_ids`, by id. `expiration_ms`: the cluster's transactional.id.expiration.ms."""
        for transactional_id, known in sorted(self.transactional_ids.items()):
            times = map(none_if_unset, (known.start_timestamp, known.last_update_timestamp))
            expires = expires_at(known.state, known.last_update_timestamp, expiration_ms)
            of = (self.state_partition, transactional_id, *map(none_if_unset, _PRODUCERS(known)), known.state)
            partitions = list(known.topic_partitions)
            yield TransactionalIdRow._make((*of, known.timeout_ms, partitions, *times, expires, known.log_offset))

    def save(self) -> Iterator[StateRow]:
        """Rows from which `load` restores the same state."""
        for transactional_id, known in sorted(self.transactional_ids.items()):
            yield StateRow("transactional_id", None, orjson.dumps([transactional_id, *_fields(known)]).decode())

    @classmethod
    def load(
        cls, rules: TransactionRules, state_partition: int, rows: Iterable[StateRow], *, reporting: bool = False
    ) -> TransactionCoordinatorShard:
        shard = cls(rules, state_partition, reporting=reporting)
        for row in rows:
            transactional_id, *fields = orjson.loads(row.payload)
            fields[_PARTITIONS] = tuple(TopicPartition(*each) for each in fields[_PARTITIONS])
            shard.transactional_ids[transactional_id] = TransactionalId(*fields)
        return shard

    def _of_value(self, value: Value, log_offset: int) -> TransactionalId:
        state = STATES.get(value["transactionStatus"])
        if state is None:
            raise ReplayFailure(f"Unknown transaction state id {value['transactionStatus']}")
        partitions = value["transactionPartitions"]
        if state == EMPTY:
            partitions = []
        elif partitions is None:
            raise ReplayFailure(f"A transaction in state {state} has no list of partitions")
        tags = value if self.rules.reads_tags else _NO_TAGS
        client_transaction_version = tags["clientTransactionVersion"]
        if client_transaction_version not in _TRANSACTION_VERSIONS:
            raise ReplayFailure(f"No transaction version has the feature level {client_transaction_version}")
        return TransactionalId(
            value["producerId"],
            value["producerEpoch"],
            tags["previousProducerId"],
            tags["nextProducerId"],
            tags["nextProducerEpoch"],
            state,
            value["transactionTimeoutMs"],
            tuple(sorted({TopicPartition(one["topic"], p) for one in partitions for p in one["partitionIds"]})),
            value["transactionStartTimestampMs"],
            value["transactionLastUpdateTimestampMs"],
            client_transaction_version,
            log_offset,
        )


def expires_at(state: str, last_update_timestamp: int, expiration_ms: int) -> int | None:
    """The first millisecond at which a clean-up (hourly by default) removes the id, the year 9999 at the latest; None:
    not in this state. From 0.11 to 4.4 (TransactionStateManager.shouldExpire, 4.3): no transaction is open, and `last
    update <= now - transactional.id.expiration.ms`."""
    return min(last_update_timestamp + expiration_ms, LAST_MS) if state in EXPIRING_STATES else None


def timeout_text(timeout_ms: int | None) -> str | None:
    """`15m`; None: there is no transaction."""
    if timeout_ms is None:
        return None
    return "none (two-phase)" if timeout_ms == TWO_PHASE_TIMEOUT_MS else format_duration(timeout_ms)


def _event(before: TransactionalId, after: TransactionalId) -> str | None:
    is_fenced = (after.producer_id, after.producer_epoch) != (before.producer_id, before.producer_epoch)
    if before.state != ONGOING or after.state != PREPARE_ABORT or not is_fenced:
        return None
    # TransactionStateManager.timedOutTransactions: start + timeout < now.
    if not before.is_two_phase and before.start_timestamp + before.timeout_ms < after.last_update_timestamp:
        return "transaction_timed_out"
    # The Ongoing record has the producer's version; the coordinator writes its own into its abort (seen on 4.3.1).
    return "producer_fenced" if before.client_transaction_version < _TV2 else None


def _fields(known: TransactionalId) -> list[Any]:
    """The fields in their order, as JSON values."""
    fields = [getattr(known, name) for name in TransactionalId._fields]
    fields[_PARTITIONS] = [list(each) for each in known.topic_partitions]
    return fields


_PRODUCERS = attrgetter(*TransactionalId._fields[:5])
_PARTITIONS = TransactionalId._fields.index("topic_partitions")
_NO_TAGS = {
    "previousProducerId": _UNSET,
    "nextProducerId": _UNSET,
    "nextProducerEpoch": _UNSET,
    "clientTransactionVersion": 0,
}


# Which open transactions are hanging, by Kafka's own rule, that of `kafka-transactions find-hanging`.
#
# A transaction that is open on a partition is hanging if its producer's last record there is older than the maximum,
# and the transaction coordinator does not know the producer, or does not list the partition: then no coordinator will
# write its marker. (TransactionsCommand.FindHangingTransactionsCommand, 4.3.1: collectCandidateOpenTransactions,
# filterHangingTransactions.) Three rules are ours:
#
# - A two-phase transaction (KIP-939) is never hanging, whatever is listed: an external coordinator ends it.
# - If `__transaction_state` was not read, only in part, or not as far as the transaction, the verdict is only that the
#   transaction has been open for longer than the maximum.
# - Producers are looked up in the log instead of by ListTransactions, which leaves out ids in state Dead.


class Verdict(Enum):
    WITHIN_MAXIMUM = "open for no longer than the maximum"
    LISTED = "the transaction coordinator lists the partition and will write the marker"
    TWO_PHASE = "an external coordinator ends it"
    PARTITION_NOT_LISTED = "the transaction coordinator does not list the partition"
    PRODUCER_UNKNOWN = "the transaction coordinator does not know the producer"
    NOT_KNOWN = "open for longer than the maximum; __transaction_state, which the coordinator writes, was not read"

    @property
    def is_hanging(self) -> bool:
        return self in (Verdict.PARTITION_NOT_LISTED, Verdict.PRODUCER_UNKNOWN)


class OpenOnPartition(NamedTuple):
    """A transaction open on a partition. `last_timestamp`: of the producer's last record there; None: it has none."""

    topic_partition: TopicPartition
    producer_id: int
    last_timestamp: int | None


class Listings:
    """The coordinator's listing: rows of `transactional_ids`, by present producer, read up to `known_until` (epoch ms;
    None: now). `is_complete`: every partition of `__transaction_state` was read."""

    def __init__(
        self, rows: Iterable[TransactionalIdRow], *, is_complete: bool = True, known_until: int | None = None
    ) -> None:
        self.is_complete = is_complete
        self.known_until = known_until
        self._by_producer: defaultdict[int, list[TransactionalIdRow]] = defaultdict(list)
        for row in rows:
            if row.producer_id is not None and row.state != "Dead":
                self._by_producer[row.producer_id].append(row)

    def of_producer(self, producer_id: int) -> list[TransactionalIdRow]:
        """The transactional ids with that producer: one, unless the log is damaged."""
        return self._by_producer.get(producer_id, [])

    def transactional_id(self, producer_id: int) -> str | None:
        """The transactional id of a producer id; None: the coordinator does not know the producer."""
        rows = self.of_producer(producer_id)
        return rows[0].transactional_id if rows else None


def verdict(transaction: OpenOnPartition, listings: Listings | None, now: int, maximum_ms: int) -> Verdict:
    """Whether a transaction hangs. `listings` None: `__transaction_state` was not read."""
    last = -1 if transaction.last_timestamp is None else transaction.last_timestamp
    rows = [] if listings is None else listings.of_producer(transaction.producer_id)
    if any(row.timeout_ms == TWO_PHASE_TIMEOUT_MS for row in rows):
        return Verdict.TWO_PHASE
    if now - last <= maximum_ms:
        return Verdict.WITHIN_MAXIMUM
    if any(transaction.topic_partition in row.topic_partitions for row in rows):
        return Verdict.LISTED
    if listings is None or (listings.known_until is not None and listings.known_until < last):
        return Verdict.NOT_KNOWN
    if rows:
        return Verdict.PARTITION_NOT_LISTED
    return Verdict.PRODUCER_UNKNOWN if listings.is_complete else Verdict.NOT_KNOWN
