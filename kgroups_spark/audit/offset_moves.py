"""What stage 1 keeps of a range so that stage 2 can tell every move of an offset, of which reduce drops most.

Rows that are *pinned* stay in the replay as they are, transactions around them whole:

    plain values          before and after a move backwards or to another topic id; next to a tombstone or a record with
                          a producer id of the slot; the first of the slot
    transactional values  of a slot that has nothing else, never goes backwards in log order, whatever became of the
                          values, and keeps its topic id: the first that takes effect and the last one. Of others all

So the state is, wherever an offset moves backwards, is removed or comes again, the one that every record would make.

Moves forward are too many to keep: they come out as *climbs*, a column each, and stage 2 picks those of groups without
members (climbs.py). Where the value before stands in the range as a plain one, the climb knows it; the other rows are
pinned, and tell it themselves (`tells_climb`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.audit.topic_names import has_id
from kgroups_spark.coordinator.reduce_columns import CommitFacts, MarkerFacts, ReduceRules, next_marker, resolved
from kgroups_spark.messages.offset_commits import OffsetCommitColumns
from kgroups_spark.messages.offset_keys import OffsetKeys
from kgroups_spark.records.columns import RecordColumns

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

CLIMBS = pa.schema(
    [
        ("log_offset", pa.int64()),
        ("log_timestamp", pa.int64()),
        ("commit_timestamp", pa.int64()),
        ("group_id", pa.dictionary(pa.int32(), pa.string())),
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("partition", pa.int32()),
        ("offset_before", pa.int64()),
        ("offset_after", pa.int64()),
    ]
)

_NOTHING, _PLAIN, _SHARP = 0, 1, 2


class OffsetMoves:
    """Looks at a range's commits chunk by chunk. It holds a few numbers of each slot."""

    def __init__(self, keys: OffsetKeys, reads: NDArray[np.bool_], *, all_stay: bool = False) -> None:
        """`reads`: by record type and value version which values count; `all_stay`: nothing will be reduced."""
        self._keys = keys
        self._all_stay = all_stay
        self._reads = reads
        # Of each slot what its last record in the range so far is, its offset, and the last topic id that was named.
        self._kind = np.zeros(0, np.int8)
        self._value = np.zeros(0, np.int64)
        self._topic_id = np.zeros((0, 2), np.uint64)

    def chunk(
        self, records: RecordColumns, commits: OffsetCommitColumns, *, climbs: bool
    ) -> tuple[Flags, pa.RecordBatch | None]:
        """By row whether it tells of its own move forward, and the climbs among the others, if they are wanted."""
        rows, keys = commits.rows, self._keys
        n = len(rows)
        if not n or self._all_stay:
            return np.ones(n, np.bool_), None
        slot = keys.slot[commits.code]
        self._grow(int(slot.max()) + 1)
        sharp = records.producer_id[rows] >= 0
        sharp |= records.is_transactional[rows] | commits.is_tombstone
        sharp |= ~self._reads[keys.record_type[commits.code], np.maximum(commits.value_version, 0)]
        value, halves = commits.committed_offset, np.ascontiguousarray(commits.topic_id).view(np.uint64)
        order = np.argsort(slot.astype(np.uint16) if len(self._kind) < 1 << 16 else slot, kind="stable")
        in_order = slot[order]
        is_first = np.ones(n, np.bool_)
        is_first[1:] = in_order[1:] != in_order[:-1]
        first, before = order[is_first], np.empty(n, np.int64)
        before[1:] = order[:-1]
        before[0] = 0
        kind = np.where(sharp, _SHARP, _PLAIN).astype(np.int8)
        kind_before, value_before = kind[before], value[before]
        kind_before[is_first] = self._kind[slot[first]]
        value_before[is_first] = self._value[slot[first]]
        ids = halves[order]
        named_before = _named_before(ids, is_first, self._topic_id[slot[first]])
        same_id = ~_renamed(ids, named_before)
        tells = np.empty(n, np.bool_)
        tells[order] = (kind_before != _PLAIN) | sharp[order] | ~same_id
        is_last = np.ones(n, np.bool_)
        is_last[:-1] = is_first[1:]
        last = order[is_last]
        self._kind[slot[last]], self._value[slot[last]] = kind[last], value[last]
        self._topic_id[slot[last]] = np.where(has_id(ids), ids.T, named_before.T).T[is_last]
        if not climbs:
            return tells, None
        up = (kind_before == _PLAIN) & ~sharp[order] & same_id & (value[order] > value_before)
        known = np.zeros(n, np.bool_)
        known[order] = up
        found = np.flatnonzero(known)
        if not len(found):
            return tells, None
        was = np.empty(n, np.int64)
        was[order] = value_before
        return tells, self._climbs(records, commits, found, was[found])

    def _climbs(
        self, records: RecordColumns, commits: OffsetCommitColumns, found: I64, value_before: I64
    ) -> pa.RecordBatch:
        rows, keys, code = commits.rows[found], self._keys, commits.code[found]
        partition = keys.partition[code]
        group_id, topic = keys.group_id, keys.topic
        if len(group_id) > len(found):
            some, among = np.unique(code, return_inverse=True)
            group_id, topic = group_id.take(pa.array(some)), topic.take(pa.array(some))
            index = pa.array(among.astype(np.int32))
        else:
            index = pa.array(code.astype(np.int32))
        return pa.RecordBatch.from_arrays(
            [
                pa.array(records.offset[rows]),
                pa.array(records.timestamp[rows]),
                pa.array(commits.commit_timestamp[found]),
                pa.DictionaryArray.from_arrays(index, group_id),
                pa.DictionaryArray.from_arrays(index, topic),
                pa.array(partition.astype(np.int32)),
                pa.array(value_before),
                pa.array(commits.committed_offset[found]),
            ],
            schema=CLIMBS,
        )

    def _grow(self, slots: int) -> None:
        if slots > len(self._kind):
            more = max(slots, 2 * len(self._kind)) - len(self._kind)
            self._kind = np.concatenate([self._kind, np.zeros(more, np.int8)])
            self._value = np.concatenate([self._value, np.zeros(more, np.int64)])
            self._topic_id = np.concatenate([self._topic_id, np.zeros((more, 2), np.uint64)])


def pinned_rows(
    commits: CommitFacts,
    value: I64,
    topic_id: NDArray[np.uint8],
    tells: Flags,
    markers: MarkerFacts,
    spoilers: tuple[I64, I64],
    rules: ReduceRules,
) -> Flags:
    """The rows that must stay as they are. `commits` are rows of one contiguous range, reduced before or not; values
    below are those of values alone."""
    if not (rules.resolve_transactions or rules.scala_stretches):
        return commits.content  # 3.7: what a marker commits overrides whatever came since
    pinned = tells & commits.content & (commits.producer_id < 0) & ~commits.is_transactional
    rows = np.flatnonzero(commits.content)
    if not len(rows):
        return pinned
    slots = int(commits.slot.max()) + 1
    slot = commits.slot[rows]
    rows = rows[np.argsort(slot.astype(np.uint16) if slots < 1 << 16 else slot, kind="stable")]
    slot = commits.slot[rows]
    produced = (commits.producer_id[rows] >= 0) | commits.is_transactional[rows]
    sharp = produced | commits.is_tombstone[rows] | ~commits.clean[rows]
    halves = np.ascontiguousarray(topic_id[rows]).view(np.uint64)
    same = slot[1:] == slot[:-1]
    is_value = ~commits.is_tombstone[rows]
    moved = same & is_value[1:] & is_value[:-1]
    firsts = np.concatenate([[True], ~same])
    named_before = _named_before(halves, firsts, np.zeros((int(firsts.sum()), 2), np.uint64))
    moved &= (value[rows][1:] < value[rows][:-1]) | _renamed(halves, named_before)[1:]
    edge = moved | (same & (sharp[1:] | sharp[:-1]))
    stays = firsts & ~produced
    stays[1:] |= edge & ~produced[1:]
    stays[:-1] |= edge & ~produced[:-1]
    if produced.any():
        is_odd = np.zeros(slots, np.bool_)
        is_odd[slot[1:][moved]] = True
        is_odd[slot[sharp & ~produced]] = True
        has_plain = np.zeros(slots, np.bool_)
        has_plain[slot[~produced]] = True
        stays |= produced & (is_odd | has_plain)[slot]
        even = produced & ~(is_odd | has_plain)[slot]
        if even.any():
            stays[even] |= _first_and_last_effects(commits, rows[even], markers, spoilers, rules)
    pinned[rows[stays]] = True
    return pinned


def _named_before(ids: NDArray[np.uint64], is_first: Flags, carried: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of rows by slot the last topic id that an earlier row of the slot names; before its first row the carried one."""
    named = np.where(has_id(ids), np.arange(len(ids)), -1)
    upto = np.maximum.accumulate(named)
    before = np.concatenate([[-1], upto[:-1]])
    starts = np.flatnonzero(is_first)
    of = np.cumsum(is_first) - 1
    in_slot = before >= starts[of]
    named_before: NDArray[np.uint64] = np.where(in_slot[:, None], ids[np.maximum(before, 0)], carried[of])
    return named_before


def _renamed(ids: NDArray[np.uint64], named_before: NDArray[np.uint64]) -> Flags:
    """Whether the row names another topic id than was named before."""
    renamed: Flags = has_id(ids) & has_id(named_before) & (ids != named_before).any(axis=1)
    return renamed


def _first_and_last_effects(
    commits: CommitFacts, rows: I64, markers: MarkerFacts, spoilers: tuple[I64, I64], rules: ReduceRules
) -> Flags:
    """Of rows by slot and log offset those whose values are the first and the last to take effect in the range."""
    found = np.zeros(len(rows), np.bool_)
    if not rules.resolve_transactions or not len(markers.log_offset):
        return found
    committed = resolved(commits, markers, spoilers, rules)[rows]
    those = np.flatnonzero(committed)
    if not len(those):
        return found
    ends = np.flatnonzero(markers.outcome >= 0)
    order = ends[np.lexsort((markers.log_offset[ends], markers.producer_id[ends]))]
    at, _ = next_marker(
        commits.producer_id[rows[those]],
        commits.log_offset[rows[those]],
        markers.producer_id[order],
        markers.log_offset[order],
    )
    slot, effect = commits.slot[rows[those]], markers.log_offset[order][at]
    last = np.ones(len(those), np.bool_)
    last[:-1] = slot[1:] != slot[:-1]
    found[those[last]] = True
    by_effect = np.lexsort((-commits.log_offset[rows[those]], effect, slot))
    first = np.ones(len(those), np.bool_)
    first[1:] = slot[by_effect][1:] != slot[by_effect][:-1]
    found[those[by_effect[first]]] = True
    return found
