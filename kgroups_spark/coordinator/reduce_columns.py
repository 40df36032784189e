"""Which offset commits and markers of a log range its replay still needs: the columnar form of `reduce`.

The law is replay(reduce(a) + reduce(b)) = replay(a + b) for every release and cut. What stays, by number of
`docs/design.md`:

1. of the values of a slot (group, topic, partition) that act as plain, the last: no record of types 2 to 23 touches an
   offset;
2. every tombstone, every record with a producer id but no transactional bit, every transaction without its marker here;
3. each producer's records up to and including its first marker (only behind it is it known that a transaction began
   here, unless the range begins the log). Of later transactions COMMIT makes the values plain at their own offset,
   ABORT drops them and the marker goes; a transaction stays whole where it holds anything but decodable values, or
   where a tombstone of one of its slots lies between the value and the marker. Markers that are neither end nothing
   and spoil what they stand in;
4. the first value of each stretch of a group, as a row without content. A stretch ends at each of the group's records
of types 2 to 23: the value makes the simple group exist that the next such record finds (T29, T31), and keeps
   `state_since` and the version tables independent of cuts;
5. Java 3.8 to 4.0.0: the last transaction of each producer and group, whole (the open-transaction leak, KAFKA-19164);
   Java 3.7: transactions all stay; Scala: they do, too, and a group exists only as long as something is left of it, so
   a stretch ends at tombstones of the group and at any marker, too, the last value of a slot stays for each stretch,
   and the first value of a stretch stays with its content.

`kgroups_spark.coordinator.reduce` is the same, record by record, and the referee in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COMMIT, ABORT, NEITHER = 1, 0, -1

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class ReduceRules:
    """How far a release's replay lets a range be reduced. `begins_log`: nothing is before the range."""

    resolve_transactions: bool = True
    keep_last_transaction: bool = False
    scala_stretches: bool = False
    begins_log: bool = False


@dataclass(frozen=True)
class CommitFacts:
    """What reducing needs to know of n offset-commit records, in log order.

    `group` is a function of `slot`; `clean` is false for values that do not decode in every release (a type-0 key
    with a value version above 0); `content` is false for rows that an earlier reduction left without content.
    """

    log_offset: Ints
    slot: Ints
    group: Ints
    producer_id: Ints
    is_transactional: Flags
    is_tombstone: Flags
    clean: Flags
    content: Flags


@dataclass(frozen=True)
class MarkerFacts:
    """k control records, in log order: `outcome` is COMMIT, ABORT or NEITHER."""

    log_offset: Ints
    producer_id: Ints
    outcome: Ints


@dataclass(frozen=True)
class Reduced:
    """What stays: flags over the commits and the markers, and the commits that became plain."""

    keep: Flags
    became_plain: Flags
    without_content: Flags
    keep_marker: Flags


def reduce_columns(
    commits: CommitFacts,
    markers: MarkerFacts,
    breaks: tuple[Ints, Ints],
    spoilers: tuple[Ints, Ints],
    rules: ReduceRules,
    pinned: Flags | None = None,
) -> Reduced:
    """What the replay still needs of one contiguous range of a log.

    `pinned` rows stay whatever they are. With them no value becomes plain: the last of each slot that takes effect is
    to be pinned, its transaction among the `spoilers`.
    `breaks` are (group, log offset) of the records of types 2 to 23, `spoilers` (producer id, log offset) of records
    that have a producer id and are not offset commits, or do not decode.
    """
    n = len(commits.log_offset)
    plain = (
        (commits.producer_id < 0) & ~commits.is_transactional & ~commits.is_tombstone & commits.clean & commits.content
    )
    dropped = np.zeros(n, np.bool_)
    became_plain = np.zeros(n, np.bool_)
    keep_marker = np.ones(len(markers.log_offset), np.bool_)
    if rules.resolve_transactions and len(markers.log_offset):
        became_plain, dropped, keep_marker = _resolve_transactions(commits, markers, spoilers, rules)
        plain |= became_plain
    values = ~commits.is_tombstone & commits.clean
    stretch, widths = _stretches(commits, markers, breaks, rules)
    keep = ~plain & ~dropped & commits.content
    slots = commits.slot, int(commits.slot.max(initial=-1)) + 1
    if rules.scala_stretches:
        slots = _dense_ids(commits.slot, stretch, _widths_of_slots(commits, widths))
    keep[_last_of_each(*slots, np.nonzero(plain)[0])] = True
    if pinned is not None:
        keep &= ~became_plain
        keep |= pinned
    first = _first_of_each(*_dense_ids(commits.group, stretch, widths), np.nonzero(values)[0])
    without_content = np.zeros(n, np.bool_)
    if rules.scala_stretches:
        keep[first] = True
    else:
        without_content[first[~keep[first]]] = True
    return Reduced(keep, became_plain & keep, without_content, keep_marker)


def resolved(commits: CommitFacts, markers: MarkerFacts, spoilers: tuple[Ints, Ints], rules: ReduceRules) -> Flags:
    """Transactional values that are known to take effect at a marker of the range."""
    return _resolve_transactions(commits, markers, spoilers, rules)[0]


def _resolve_transactions(
    commits: CommitFacts, markers: MarkerFacts, spoilers: tuple[Ints, Ints], rules: ReduceRules
) -> tuple[Flags, Flags, Flags]:
    """(rows that become plain, rows that go, markers that stay) by points 3 and 5."""
    ends = np.nonzero(markers.outcome != NEITHER)[0]
    others = np.nonzero(markers.outcome == NEITHER)[0]
    keep_marker = np.ones(len(markers.log_offset), np.bool_)
    committed, dropped = np.zeros(len(commits.slot), np.bool_), np.zeros(len(commits.slot), np.bool_)
    if not len(ends):
        return committed, dropped, keep_marker
    order = ends[np.lexsort((markers.log_offset[ends], markers.producer_id[ends]))]
    marker_producer, marker_offset = markers.producer_id[order], markers.log_offset[order]
    is_first = np.full(len(order), not rules.begins_log)
    is_first[1:] &= marker_producer[1:] != marker_producer[:-1]

    rows = np.nonzero(commits.producer_id >= 0)[0]
    at, known = next_marker(commits.producer_id[rows], commits.log_offset[rows], marker_producer, marker_offset)
    later = known & ~is_first[at]
    rows, at = rows[later], at[later]

    whole = np.zeros(len(order), np.bool_)
    odd = commits.is_tombstone[rows] | ~commits.is_transactional[rows] | ~commits.clean[rows]
    whole[at[odd | _tombstone_follows(commits, rows, marker_offset[at])]] = True
    spoiler_producer = np.concatenate([spoilers[0], markers.producer_id[others]])
    spoiler_offset = np.concatenate([spoilers[1], markers.log_offset[others]])
    spoiled, spoiled_known = next_marker(spoiler_producer, spoiler_offset, marker_producer, marker_offset)
    whole[spoiled[spoiled_known]] = True
    if rules.keep_last_transaction and len(rows):
        pairs = np.stack([commits.producer_id[rows], commits.group[rows]])
        by_pair = np.lexsort((commits.log_offset[rows], pairs[1], pairs[0]))
        is_last = np.ones(len(by_pair), np.bool_)
        is_last[:-1] = (pairs[:, by_pair[1:]] != pairs[:, by_pair[:-1]]).any(axis=0)
        whole[at[by_pair[is_last]]] = True

    resolved = ~whole[at]
    rows, outcome = rows[resolved], markers.outcome[order][at[resolved]]
    committed[rows[outcome == COMMIT]] = True
    dropped[rows[outcome == ABORT]] = True
    keep_marker[order] = is_first | whole
    return committed, dropped, keep_marker


def next_marker(producer_id: Ints, log_offset: Ints, marker_producer: Ints, marker_offset: Ints) -> tuple[Ints, Flags]:
    """For each record the index of its producer's next marker among the sorted markers, and whether there is one."""
    producers = np.unique(marker_producer)
    rank = np.minimum(np.searchsorted(producers, producer_id), len(producers) - 1)
    known = producers[rank] == producer_id
    low = min(int(marker_offset.min()), int(log_offset.min()) if len(log_offset) else 0)
    span = max(int(marker_offset.max()), int(log_offset.max()) if len(log_offset) else 0) - low + 2
    marker_key = np.searchsorted(producers, marker_producer) * span + (marker_offset - low)
    at = np.searchsorted(marker_key, rank * span + (log_offset - low), side="right")
    known &= at < len(marker_key)
    at = np.minimum(at, len(marker_key) - 1)
    return at, known & (marker_producer[at] == producer_id)


def _tombstone_follows(commits: CommitFacts, rows: Ints, until: Ints) -> Flags:
    """Whether a tombstone of the row's slot lies between the row and its marker."""
    tombstones = np.nonzero(commits.is_tombstone)[0]
    if not len(tombstones) or not len(rows):
        return np.zeros(len(rows), np.bool_)
    low = int(commits.log_offset[0])
    span = max(int(commits.log_offset[-1]), int(until.max())) - low + 2
    keys = np.sort(commits.slot[tombstones] * span + (commits.log_offset[tombstones] - low))
    begin = np.searchsorted(keys, commits.slot[rows] * span + (commits.log_offset[rows] - low), side="right")
    end = np.searchsorted(keys, commits.slot[rows] * span + (until - low), side="left")
    return np.asarray(end > begin)


def _stretches(
    commits: CommitFacts, markers: MarkerFacts, breaks: tuple[Ints, Ints], rules: ReduceRules
) -> tuple[Ints, Ints]:
    """Per commit the number of its stretch within its group, and per group how many stretches it has."""
    group, at = breaks
    if rules.scala_stretches:
        tombstones = np.nonzero(commits.is_tombstone)[0]
        group = np.concatenate([group, commits.group[tombstones]])
        at = np.concatenate([at, commits.log_offset[tombstones]])
    groups = int(max(commits.group.max(initial=-1), group.max(initial=-1))) + 1
    widths = np.bincount(group, minlength=groups) + 1
    if not len(commits.log_offset):
        return np.zeros(0, np.int64), widths
    low = min(int(commits.log_offset[0]), int(at.min(initial=commits.log_offset[0])))
    span = max(int(commits.log_offset[-1]), int(at.max(initial=low))) - low + 2
    keys = np.sort(group * span + (at - low))
    stretch = np.searchsorted(keys, commits.group * span + (commits.log_offset - low), side="left")
    stretch -= (np.cumsum(widths - 1) - (widths - 1))[commits.group]
    if rules.scala_stretches:
        ends = len(markers.log_offset) + 1
        stretch = stretch * ends + np.searchsorted(markers.log_offset, commits.log_offset)
        widths = widths * ends
    return stretch.astype(np.int64), widths


def _dense_ids(owner: Ints, stretch: Ints, widths: Ints) -> tuple[Ints, int]:
    """One number per (owner, stretch), given how many stretches each owner has, and how many numbers there are."""
    base = np.cumsum(widths) - widths
    return base[owner] + stretch, int(widths.sum())


def _widths_of_slots(commits: CommitFacts, widths: Ints) -> Ints:
    """How many stretches each slot has: as many as its group; slots without a row have none."""
    group_of_slot = np.full(int(commits.slot.max(initial=-1)) + 1, -1, np.int64)
    group_of_slot[commits.slot] = commits.group
    return np.where(group_of_slot < 0, 0, widths[group_of_slot])


def _last_of_each(ids: Ints, count: int, rows: Ints) -> Ints:
    """The last of `rows` (ascending) of every id below `count`."""
    if count > 8 * len(rows) + 65536:
        return rows[len(rows) - 1 - np.unique(ids[rows[::-1]], return_index=True)[1]]
    last = np.full(count, -1, np.int64)
    last[ids[rows]] = rows
    return last[last >= 0]


def _first_of_each(ids: Ints, count: int, rows: Ints) -> Ints:
    """The first of `rows` (ascending) of every id below `count`."""
    if count > 8 * len(rows) + 65536:
        return rows[np.unique(ids[rows], return_index=True)[1]]
    first = np.full(count, -1, np.int64)
    first[ids[rows[::-1]]] = rows[::-1]
    return first[first >= 0]
