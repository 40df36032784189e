"""The offsets of a log: from the saved state and the history since then to the present state.

replayed = replay_offsets(state, OffsetHistory(commits, markers, ...), release("4.3"))
replayed.state      goes on where this ended
replay/rows.py   makes rows of the lake's tables of it
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.offsets.columns import (
    ABORT,
    COMMIT,
    EVERY_SLOT,
    I64,
    NEITHER,
    OFFSET_RECORDS,
    SLOT,
    TEXT,
    Commits,
    GroupKey,
    JoinedLog,
    Markers,
    Places,
    SlotRange,
    history_records,
    milliseconds,
    number_slots,
    numbered,
    sorted_order,
    starts_of,
)
from kgroups_spark.offsets.effects import (
    MOVES,
    Fold,
    Quiet,
    climbs,
    effects_of,
    in_order,
    last_transactions,
    move_events,
    moves,
    pending_values,
    placed_rows,
)
from kgroups_spark.offsets.removals import Holdings, ShardRemovals, first_values, holdings, merged, turning_records
from kgroups_spark.offsets.state import (
    NOTED_PRODUCERS,
    OffsetState,
    TransactionalRecords,
    Transactions,
    combined,
    open_of_rows,
    open_rows,
    transactions_of,
)
from kgroups_spark.tables.rows import flags, in_one_chunk, is_given, no_rows, numbers, with_columns

ALL_SLOTS = (EVERY_SLOT,)
# Records after which the replay of groups must know whether a group has offsets.
TURNS = pa.schema(
    [
        ("log_offset", pa.int64()),
        ("log_timestamp", pa.int64()),
        ("offset_delta", pa.int32()),  # after the base offset of its batch; null: not known
        ("group_id", TEXT),
        ("is_tombstone", pa.bool_()),
    ]
)
HOLDINGS = pa.schema(
    [("group_id", TEXT), ("since", pa.int64()), ("has_committed", pa.bool_()), ("has_pending", pa.bool_())]
)


class OffsetHistory(NamedTuple):
    """The rows of the log after the state.

    commits      a range of slots -> its rows of `offset_commits` (HISTORY_COLUMNS), in any order
    markers      all control records, and the log
    others       transactional records of types 2 to 23 and of quarantine, because transactions include them
    group_ends   (group, log offset) of tombstones of types 2 to 23, which may have removed a group
    """

    commits: Callable[[SlotRange], pa.Table]
    markers: Markers
    others: TransactionalRecords
    group_ends: Sequence[tuple[GroupKey, int]] = ()


class ReplayedOffsets(NamedTuple):
    """The result. Times are ms.

    log           the log that was replayed, which all log offsets are of
    state         the state at the end of the log; its `offsets` are committed_offsets and pending_offsets
    is_pending    for each row of state.offsets
    moves         events of offsets except removals and climbs (MOVES), in log order
    tombstones    TOMBSTONES, in log order
    unreadable    values that the release does not read (OFFSET_RECORDS), in log order
    transactions  those that are open at the end or ended in this history
    turns         Java: a group's first value, and the first after each of its ends. Scala: records after which a
                  group has its first offset, or no longer has any (TURNS), in log order. Each range of a group has
                  its own; the replay of groups ignores those that change nothing
    holdings      since when groups have committed and pending offsets (HOLDINGS), by group and log offset
    folded        the outcome of each commit if all slots were one range; None: there were several ranges
    """

    log: JoinedLog
    state: OffsetState
    is_pending: np.ndarray
    moves: pa.Table
    tombstones: pa.Table
    unreadable: pa.Table
    transactions: Transactions
    turns: pa.Table
    holdings: pa.Table
    folded: Fold | None = None


def replay_offsets(
    state: OffsetState, history: OffsetHistory, release: Release, ranges: Iterable[SlotRange] = ALL_SLOTS
) -> ReplayedOffsets:
    """Replays the offsets of a log. `ranges` ascend and cover all slots; memory holds one at a time. Only the log of
    one offsets partition has several."""
    ranges, markers, folds = list(ranges), history.markers, _Folds(state, history, release)
    only = fold_range(state, history, release, ranges[0]) if len(ranges) == 1 else None
    for slots in ranges:
        # A name would keep the folded range in memory while the next one is read.
        folds.add(only or fold_range(state, history, release, slots))
    parts = [open_of_rows(state.transactions, markers), *folds.transactions, transactions_of(history.others, markers)]
    transactions = combined(parts, markers.log)
    tombstones, restarts, removed = folds.removals.result()
    noted = zip(*sorted(row for row, (_, is_found) in folds.noted.items() if not is_found), strict=True)
    columns = [*map(list, noted)] or [[], [], []]
    tables = {name: pa.concat_tables([no_rows(schema), *folds.tables[name]]) for name, schema in _SCHEMAS.items()}
    held = tables["holdings"]
    if len(ranges) > 1:
        group, groups = numbered(held["group_id"])
        part = np.repeat(np.arange(len(ranges)), [len(each) for each in folds.tables["holdings"]])
        found = Holdings(group, numbers(held["since"]), flags(held["has_committed"]), flags(held["has_pending"]))
        held = _holding_rows(groups, merged(found, starts_of(part, group), len(groups)))
    return ReplayedOffsets(
        markers.log,
        OffsetState(tables["offsets"], removed, pa.table(columns, schema=NOTED_PRODUCERS), open_rows(transactions)),
        np.concatenate(folds.is_pending),
        in_order(pa.concat_tables([tables["moves"], restarts])),
        tombstones,
        tables["unreadable"].sort_by("log_offset"),
        transactions,
        tables["turns"].sort_by("log_offset"),
        held,
        only,
    )


def fold_range(state: OffsetState, history: OffsetHistory, release: Release, wanted: SlotRange) -> Fold:
    """Reads and folds the slots of a range."""
    saved, removed = wanted.of(state.offsets), wanted.of(state.removed)
    # The records of a saved state are as its release read them.
    records = in_one_chunk(saved, history_records(history.commits(wanted), release))
    keys = [each.select([*SLOT, "log_offset"]) for each in (records, removed)]
    slot, slots = number_slots(pa.concat_tables(keys) if len(removed) else keys[0], history.markers.log)
    version, is_transactional = numbers(records["value_version"], none=-1), flags(records["is_transactional"])
    producer_id, is_tombstone = numbers(records["producer_id"], none=-1), version < 0
    # By record type and value version; no release writes versions above 15.
    reads = np.array([[not release.fails_to_read(t, v) for v in range(16)] for t in (0, 1)])
    is_readable = is_tombstone | (version < 16) & reads[numbers(records["record_type"]), np.clip(version, 0, 15)]
    # Java checks the producer id (T28), Scala the batch's bit.
    has_producer = producer_id >= 0 if release.transactional_by == "producer_id" else is_transactional
    waits = has_producer & is_readable & ~is_tombstone
    of_records = numbers(records["log_offset"]), slot[: len(records)], producer_id
    commits = Commits(*of_records, is_transactional, is_tombstone, is_readable, waits, slots)
    by_record = sorted_order(Places.over(len(slots), commits.log_offset).keys(commits.slot, commits.log_offset))
    pending = pending_values(commits, by_record, history.markers, release)
    effects = effects_of(commits, by_record, pending, release)
    return Fold(records, len(saved), commits, pending, effects, removed, slot[len(records) :])


def climb_events(folded: Fold, quiet: Quiet, markers: Markers) -> pa.Table:
    """Events `offset_skipped` (MOVES) of a range, given the times in which its groups had no members."""
    return in_order(_move_rows(folded, climbs(folded, quiet), markers, 0))


_SCHEMAS = {
    "offsets": OFFSET_RECORDS,
    "moves": MOVES,
    "unreadable": OFFSET_RECORDS,
    "turns": TURNS,
    "holdings": HOLDINGS,
}


class _Folds:
    """Collects the results of the ranges. `noted`: a row of NOTED_PRODUCERS, the end of its last transaction, and
    whether the producer is no longer noted then."""

    def __init__(self, saved: OffsetState, history: OffsetHistory, release: Release) -> None:
        self._history, self._release = history, release
        self.removals = ShardRemovals(history.markers.log)
        self.tables = defaultdict[str, list[pa.Table]](list)
        self.is_pending = list[np.ndarray]()
        self.transactions = list[Transactions]()
        rows = saved.noted.to_pydict()
        keys = zip(*(rows[name] for name in NOTED_PRODUCERS.names), strict=True)
        self.noted: dict[tuple[int, str, int], tuple[int, bool]] = dict.fromkeys(keys, (-1, False))
        self._slots = 0

    def add(self, folded: Fold) -> None:
        markers, records, commits = self._history.markers, folded.records, folded.commits
        committed, waits = folded.effects.row[folded.effects.is_final], folded.pending.row[folded.pending.is_open]
        row, is_pending = np.append(committed, waits), np.repeat([False, True], [len(committed), len(waits)])
        order = np.lexsort((commits.producer_id[row], is_pending, commits.slot[row]))
        is_pending, rows = is_pending[order], records.take(pa.array(row[order]))
        # The coordinator keeps no producer for committed offsets.
        for name, none in (("producer_id", None), ("producer_epoch", None), ("is_transactional", False)):
            values = pc.if_else(pa.array(is_pending), rows[name], pa.scalar(none, rows[name].type))
            rows = with_columns(rows, **{name: values})
        self.tables["offsets"].append(rows)
        self.is_pending.append(is_pending)
        self.removals.add(folded, markers, self._slots)
        self.tables["moves"].append(_move_rows(folded, moves(folded), markers, self._slots))
        self.tables["unreadable"].append(records.take(pa.array(np.flatnonzero(~commits.is_readable))))
        row = folded.saved_rows + np.flatnonzero(commits.is_transactional[folded.saved_rows :])
        some = records.take(pa.array(row))
        transactional = TransactionalRecords(
            numbers(some["log_offset"]),
            numbers(some["log_timestamp"], none=-1),
            numbers(some["producer_id"], none=-1),
            numbers(some["producer_epoch"], none=-1),
            is_given(some["value_version"]),
            some["group_id"].combine_chunks(),
        )
        self.transactions.append(transactions_of(transactional, markers))
        groups, held = commits.slots.groups, holdings(folded)
        self.tables["holdings"].append(_holding_rows(groups, held))
        if self._release.simple_groups_follow_offsets:
            row = turning_records(commits, held, folded.saved_rows)
        else:
            ends = self._history.group_ends
            number = {key: number for number, key in enumerate(commits.slots.keys())} if ends else {}
            of_groups = [(number[key], at) for key, at in ends if key in number]
            row = first_values(commits, np.array(of_groups, np.int64).reshape(-1, 2), folded.saved_rows)
        turns = records.select(TURNS.names[:-1]).take(pa.array(row))
        self.tables["turns"].append(turns.append_column(TURNS.field(-1), pa.array(commits.is_tombstone[row])))
        if self._release.open_transactions_by == "group":
            keys, columns = commits.slots.keys(), last_transactions(folded.pending, commits)
            for at, producer, end, is_found in zip(*(each.tolist() for each in columns), strict=True):
                noted = (*keys[at], producer)
                earlier_end, was_found = self.noted.get(noted, (-1, False))
                # A transaction with offsets in several ranges ends once.
                if end >= earlier_end:
                    self.noted[noted] = end, is_found or (end == earlier_end and was_found)
        self._slots += len(commits.slots)


def _move_rows(folded: Fold, found: I64, markers: Markers, first_slot: int) -> pa.Table:
    before = pa.array(folded.effects.row[folded.effects.before[found]])
    was = (folded.records[name].take(before).combine_chunks() for name in ("committed_offset", "topic_id"))
    return move_events(placed_rows(folded, found, markers, first_slot), *was, restarts=False)


def _holding_rows(groups: pa.Array, found: Holdings) -> pa.Table:
    group_id = pa.DictionaryArray.from_arrays(pa.array(found.group, pa.int32()), groups)
    columns = [group_id, found.since, found.has_committed, found.has_pending]
    return pa.table([pa.array(each) for each in columns], schema=HOLDINGS)


def markers_of(transaction_markers: pa.Table, log: JoinedLog) -> Markers:
    """Rows of `transaction_markers` of a log, which are sorted by log offset, as Markers."""
    outcome = transaction_markers.column("outcome").cast(pa.string())
    is_named = [flags(pc.equal(outcome, name)) for name in ("committed", "aborted")]
    return Markers(
        log,
        numbers(transaction_markers["log_offset"]),
        numbers(milliseconds(transaction_markers["log_timestamp"]), none=-1),
        numbers(transaction_markers["producer_id"], none=-1),
        np.select(is_named, [COMMIT, ABORT], default=NEITHER),
    )


def other_records(group_records: pa.Table, quarantine: pa.Table) -> TransactionalRecords:
    """Transactional rows of `group_records` and `quarantine`.

    Rows of quarantine without is_transactional are whole batches: those with a producer count as transactional, because
    only transactions have one.
    """
    names = ["log_offset", "log_timestamp", "producer_id"]
    reason, producer_id = quarantine.column("reason").cast(pa.string()), quarantine.column("producer_id")
    is_record = pc.and_(pc.not_equal(reason, "corrupt_batch"), pc.greater(quarantine.column("record_count"), 0))
    is_transactional = pc.coalesce(quarantine.column("is_transactional"), producer_id.is_valid())
    is_record = pc.and_(is_record, is_transactional)
    rows = pa.concat_tables(
        [
            group_records.filter(group_records.column("is_transactional")).select(names),
            quarantine.filter(is_record).select(names),
        ]
    )
    return TransactionalRecords(
        numbers(rows["log_offset"]),
        numbers(milliseconds(rows["log_timestamp"]), none=-1),
        numbers(rows["producer_id"], none=-1),
        np.full(len(rows), -1),
        np.zeros(len(rows), np.bool_),
        pa.nulls(len(rows), TEXT),
    )


def group_ends(group_records: pa.Table, log: JoinedLog) -> list[tuple[GroupKey, int]]:
    """(group, log offset) of tombstones among rows of `group_records`."""
    rows = group_records.filter(group_records.column("value_version").is_null())
    at = numbers(rows["log_offset"])
    keys = zip(log.number_at(at).tolist(), rows.column("group_id").to_pylist(), strict=True)
    return list(zip(keys, at.tolist(), strict=True))
