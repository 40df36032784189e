"""Delivery states of a share partition's records, as batches of offsets, and their combination with those of an update.

If several batches have an offset, the one with the larger (delivery count, delivery state) counts. Offsets below the
start offset are dropped, unless that is -1. The work is by batch, never by offset: a batch of 10^12 offsets costs the
same as one of 10, and the cost of an update depends on the batches that it overlaps or touches, not on all batches.

    there    [0..9 available, 1]   [10..19 available, 1]        start offset 5
    update           [7..12 acknowledged, 1]
    combined [5..6 available, 1]   [7..12 acknowledged, 1]   [13..19 available, 1]

(PersisterStateBatchCombiner. The class was rewritten in 4.4; both give the same state of each offset, but may differ in
whether equal adjacent batches are one batch: see `merge_pairs` and `sweep`.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.share_coordinator.rules import ShareRules

UNSET_START_OFFSET = -1
_LONG_MAX = (1 << 63) - 1


class StateBatch(NamedTuple):
    """Offsets from first to last, both included. The order of the fields is that of PersisterStateBatch.compareTo."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int  # Kafka's RecordState: 0 available, 2 acknowledged, 4 archived; no other is written

    @property
    def priority(self) -> tuple[int, int]:
        return self.delivery_count, self.delivery_state


class StateBatches(NamedTuple):
    """Batches in Kafka's order. `settled`: sorted, disjoint, none empty, and no equal adjacent ones."""

    batches: Sequence[StateBatch]
    settled: bool


def state_batches(values: Iterable[dict[str, Any]]) -> list[StateBatch]:
    return [StateBatch(v["firstOffset"], v["lastOffset"], v["deliveryCount"], v["deliveryState"]) for v in values]


def as_written(batches: Sequence[StateBatch]) -> StateBatches:
    """The batches of a snapshot, which are not combined."""
    return StateBatches(batches, _is_settled(batches))


def combine(there: StateBatches, update: Sequence[StateBatch], start_offset: int, rules: ShareRules) -> StateBatches:
    """The present batches combined with those of an update. Raises ReplayFailure (see `_check`)."""
    new = _pruned(update, start_offset)
    if not there.settled:
        return as_written(_combined([*_pruned(there.batches, start_offset), *new], rules))
    old = _pruned_settled(there.batches, start_offset)
    if len(old) + len(new) > 1:
        _check([*old[-1:], *new], rules)
    if not new:
        return StateBatches(old, True)
    # Batches that neither overlap nor touch a new one stay as they are.
    begin = bisect_left(old, min(b.first_offset for b in new) - 1, key=_last_offset)
    end = bisect_right(old, max(b.last_offset for b in new) + 1, key=_first_offset)
    middle = _combined([*old[begin:end], *new], rules)
    return StateBatches([*old[:begin], *middle, *old[end:]], _is_settled(middle))


def merge_pairs(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """4.0 to 4.3: the first two batches that overlap, or are equal and adjacent, are replaced by their combination.

    Batches before such a pair are not checked again: one that now equals and touches the result stays separate.

        [0..4 available, 1] [5..9 available, 2] + [5..9 acknowledged, 2]   2 batches, though ...
        [0..4 acknowledged, 2] [5..9 available, 2] + [5..9 acknowledged, 2]   ... here one would do
    """
    heap = list(batches)
    heapify(heap)
    done: list[StateBatch] = []
    previous = heappop(heap)
    while heap:
        candidate = heap[0]
        touch = previous.last_offset + 1 == candidate.first_offset and previous.priority == candidate.priority
        if candidate.first_offset <= previous.last_offset or touch:
            heappop(heap)
            for piece in _pieces(previous, candidate):
                heappush(heap, piece)
        else:
            done.append(previous)
        previous = heappop(heap)
    return [*done, previous]


def sweep(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """4.4: from border to border, the active batch with the highest priority."""
    borders = sorted({offset for b in batches for offset in (b.first_offset, b.last_offset + 1)})
    begins = sorted(batches)
    active: list[tuple[int, int, int]] = []  # heap of (-count, -state, last offset)
    out: list[StateBatch] = []
    at = 0
    for border, following in pairwise(borders):
        while at < len(begins) and begins[at].first_offset == border:
            batch = begins[at]
            heappush(active, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            at += 1
        while active and active[0][2] < border:
            heappop(active)
        if active:
            _append(out, StateBatch(border, following - 1, -active[0][0], -active[0][1]))
    return out


def _append(out: list[StateBatch], batch: StateBatch) -> None:
    """Appends the batch, or extends the last one if they are equal and adjacent."""
    if out and out[-1].last_offset + 1 == batch.first_offset and out[-1].priority == batch.priority:
        out[-1] = out[-1]._replace(last_offset=batch.last_offset)
    else:
        out.append(batch)


def _combined(batches: list[StateBatch], rules: ShareRules) -> list[StateBatch]:
    if len(batches) < 2:
        return batches
    _check(batches, rules)
    return merge_pairs(batches) if rules.combines == "pairs" else sweep(batches)


def _check(batches: Sequence[StateBatch], rules: ShareRules) -> None:
    """Raises ReplayFailure for batches that no coordinator writes and none can combine.

    At a batch that ends before it begins, 4.4 fails with a NullPointerException, and older releases may loop forever.
    At a batch that ends at the greatest offset, 4.4 fails in the same way, because the offset after it is negative.
    """
    for batch in batches:
        if batch.last_offset < batch.first_offset:
            raise ReplayFailure(f"A state batch ends at {batch.last_offset}, before it begins at {batch.first_offset}")
        if batch.last_offset == _LONG_MAX and rules.combines == "sweep":
            raise ReplayFailure(f"A state batch ends at {_LONG_MAX}: there is no offset after it")


def _pieces(previous: StateBatch, candidate: StateBatch) -> list[StateBatch]:
    """The combination of two batches that overlap, or are equal and adjacent; `candidate` is not before `previous`."""
    first, last = candidate.first_offset, candidate.last_offset
    if previous.priority == candidate.priority:
        return [previous._replace(last_offset=max(previous.last_offset, last))]
    if candidate.priority < previous.priority:
        rest = [candidate._replace(first_offset=previous.last_offset + 1)] if last > previous.last_offset else []
        return [previous, *rest]
    before = [previous._replace(last_offset=first - 1)] if first > previous.first_offset else []
    after = [previous._replace(first_offset=last + 1)] if last < previous.last_offset else []
    return [*before, candidate, *after]


def _pruned(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """The batches without offsets below the start offset; -1: there is none, so nothing is dropped."""
    if start_offset == UNSET_START_OFFSET:
        return list(batches)
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _pruned_settled(batches: Sequence[StateBatch], start_offset: int) -> Sequence[StateBatch]:
    """The same for sorted batches."""
    if start_offset == UNSET_START_OFFSET or not batches or batches[0].first_offset >= start_offset:
        return batches
    kept = batches[bisect_left(batches, start_offset, key=_last_offset) :]
    return [*_pruned(kept[:1], start_offset), *kept[1:]]


def _is_settled(batches: Sequence[StateBatch]) -> bool:
    return all(b.first_offset <= b.last_offset for b in batches) and all(
        one.last_offset + (one.priority == other.priority) < other.first_offset for one, other in pairwise(batches)
    )


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset


def _last_offset(batch: StateBatch) -> int:
    return batch.last_offset
