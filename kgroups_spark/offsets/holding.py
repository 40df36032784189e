"""Since when groups have offsets: the only facts on offsets that the replay of groups needs.

Java (`first_values`): a value creates a simple group if there is none, and only a tombstone of the group removes it.
Scala (`holdings`): a group without metadata exists exactly as long as it has offsets, including pending ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgroups_spark.offsets.effects import Fold
from kgroups_spark.offsets.moves import births
from kgroups_spark.offsets.numbers import I64, NEVER, Flags, Places, lasts_of, latest_at, sorted_order, starts_of
from kgroups_spark.offsets.records import Commits


@dataclass(frozen=True, eq=False)
class Holdings:
    """Whether a group has committed and pending offsets, from the log offset `since` to the group's next row.

    Rows are sorted by group (number in Slots) and `since`; each changes one of the two flags. Before its first row a
    group has no offsets.
    """

    group: I64
    since: I64
    has_committed: Flags
    has_pending: Flags

    def __len__(self) -> int:
        return len(self.group)

    def at(self, group: I64, log_offset: I64) -> tuple[Flags, Flags]:
        """Whether groups have committed, and pending, offsets after the record at a log offset."""
        if not len(self):
            return np.zeros(len(group), np.bool_), np.zeros(len(group), np.bool_)
        found = latest_at(self.group, self.since, group, log_offset)
        return (found >= 0) & self.has_committed[found], (found >= 0) & self.has_pending[found]


def holdings(folded: Fold) -> Holdings:
    """When each group of a fold has offsets.

    g: @10 value of producer 7, @12 COMMIT, @15 tombstone  ->  since [10, 12, 15]
                                    has_committed [False, True, False], has_pending [True, False, False]
    """
    commits, effects, pending = folded.commits, folded.effects, folded.pending
    born = births(effects)
    gone = np.flatnonzero(commits.is_tombstone[effects.row] & (effects.before >= 0))
    begun = np.flatnonzero(pending.is_first)
    ended = begun[pending.until[begun] < NEVER]
    row = [effects.row[born], effects.row[gone], pending.row[begun], pending.row[ended]]
    place = [effects.place[born], effects.place[gone], commits.log_offset[pending.row[begun]], pending.until[ended]]
    sizes = [len(each) for each in row]
    group = commits.slots.group[commits.slot[np.concatenate(row)]]
    at = np.concatenate(place)
    return _changes(
        group, at, np.repeat([1, -1, 0, 0], sizes), np.repeat([0, 0, 1, -1], sizes), len(commits.slots.groups)
    )


def merged(found: Holdings, starts: Flags, groups: int) -> Holdings:
    """The holdings of groups whose slots were in several folds. `starts`: marks the first row of each group of a fold.

    g in one fold: has_committed from 10 to 15, in the next one: from 12 on  ->  since [10], has_committed [True]
    """
    committed, pending = (
        has.astype(np.int64) - (np.concatenate([[False], has[:-1]]) & ~starts)
        for has in (found.has_committed, found.has_pending)
    )
    return _changes(found.group, found.since, committed, pending, groups)


def first_values(folded: Fold, ends: tuple[I64, I64], saved_rows: int) -> I64:
    """Records that are a group's first value in the log, or the first after one of its `ends` (group, log offset). The
    first `saved_rows` records do not count: the saved state has their groups.

    Ends are the tombstones of types 2 to 23, which may have removed the group. A value that the release does not read
    creates no group.
    """
    commits = folded.commits
    row = saved_rows + np.flatnonzero((commits.is_readable & ~commits.is_tombstone)[saved_rows:])
    if not len(row):
        return row
    group, log_offset = commits.slots.group[commits.slot[row]], commits.log_offset[row]
    places = Places.over(len(commits.slots.groups), log_offset, ends[1])
    keys = np.sort(places.keys(*ends))
    # The number of ends before the value, in its own and all earlier groups, plus the group's number: one number for
    # each stretch.
    stretch = (np.searchsorted(keys, places.keys(group, log_offset)) if len(keys) else 0) + group
    first = np.full(int(stretch.max()) + 1, NEVER)
    np.minimum.at(first, stretch, log_offset)
    is_first = log_offset == first[stretch]
    found: I64 = row[is_first]
    return found


def turning_records(commits: Commits, found: Holdings, saved_rows: int) -> I64:
    """Records after which a group has its first offset, or no longer has any, except the first `saved_rows`."""
    has_any = found.has_committed | found.has_pending
    had_any = np.concatenate([[False], has_any[:-1]]) & ~starts_of(found.group)
    places = found.since[has_any != had_any]
    turning: I64 = saved_rows + np.flatnonzero(np.isin(commits.log_offset[saved_rows:], places))
    return turning


def _changes(group: I64, place: I64, committed: I64, pending: I64, groups: int) -> Holdings:
    order = sorted_order(Places.over(groups, place).keys(group, place))
    group, place = group[order], place[order]
    counts = [np.cumsum(steps[order]) for steps in (committed, pending)]
    is_start = starts_of(group)
    first = np.flatnonzero(is_start)
    of = np.cumsum(is_start) - 1
    has = []
    for count in counts:
        before = np.concatenate([[0], count])[first]
        has.append(count > before[of] if len(count) else np.zeros(0, np.bool_))
    last = lasts_of(group, place)
    group, place, has_committed, has_pending = group[last], place[last], has[0][last], has[1][last]
    changes = starts_of(group, has_committed, has_pending)
    # A group's first row without offsets changes nothing.
    changes &= ~(starts_of(group) & ~has_committed & ~has_pending)
    return Holdings(group[changes], place[changes], has_committed[changes], has_pending[changes])
