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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.rows import none_if_unset
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.times import LAST_MS
from kgroups_spark.transaction_coordinator.rows import TopicPartition, TransactionalIdRow, TransactionEvent
from kgroups_spark.transaction_coordinator.rules import TRANSACTIONAL_ID_EXPIRATION_MS, TransactionRules

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


@dataclass(frozen=True, slots=True)
class TransactionalId:
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
        if self.reporting:
            self._report(log_timestamp, transactional_id, self.transactional_ids.get(transactional_id), after)
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
            yield TransactionalIdRow(
                self.state_partition,
                transactional_id,
                none_if_unset(known.producer_id),
                none_if_unset(known.producer_epoch),
                none_if_unset(known.previous_producer_id),
                none_if_unset(known.next_producer_id),
                none_if_unset(known.next_producer_epoch),
                known.state,
                known.timeout_ms,
                list(known.topic_partitions),
                none_if_unset(known.start_timestamp),
                none_if_unset(known.last_update_timestamp),
                expires_at(known.state, known.last_update_timestamp, expiration_ms),
                known.log_offset,
            )

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

    def _report(
        self, log_timestamp: int | None, transactional_id: str, before: TransactionalId | None, after: TransactionalId
    ) -> None:
        event = None if before is None else _event(before, after)
        if before is not None and event is not None:
            self._events.append(
                TransactionEvent(
                    after.log_offset,
                    log_timestamp,
                    transactional_id,
                    event,
                    before.producer_id,
                    before.producer_epoch,
                    none_if_unset(before.start_timestamp),
                    before.timeout_ms,
                    list(before.topic_partitions),
                )
            )


def expires_at(state: str, last_update_timestamp: int, expiration_ms: int) -> int | None:
    """The first millisecond at which a clean-up (once an hour by default) removes the id, the year 9999 at the latest;
    None: not in this state.

    The rule is the same from 0.11 to 4.4 (TransactionStateManager.shouldExpire, 4.3): a state without an open
    transaction, and `last update <= now - transactional.id.expiration.ms`.
    """
    return min(last_update_timestamp + expiration_ms, LAST_MS) if state in EXPIRING_STATES else None


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
    fields = [getattr(known, name) for name in TransactionalId.__slots__]
    fields[_PARTITIONS] = [list(each) for each in known.topic_partitions]
    return fields


_PARTITIONS = TransactionalId.__slots__.index("topic_partitions")
_NO_TAGS = {
    "previousProducerId": _UNSET,
    "nextProducerId": _UNSET,
    "nextProducerEpoch": _UNSET,
    "clientTransactionVersion": 0,
}
