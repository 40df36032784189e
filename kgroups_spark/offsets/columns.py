"""Rows of `offset_commits` and of the saved state in one form, and the numbers of their slots."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.errors import KgroupsError
from kgroups_spark.messages.schema import reader
from kgroups_spark.tables.rows import by_name, constant, flags, is_given, numbers, one_array, where, with_columns

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

# A place after every log offset, for events that have not happened.
NEVER = int(np.iinfo(np.int64).max)
# A marker's outcome. NEITHER: a control record of another type.
COMMIT, ABORT, NEITHER = 1, 0, -1
# Keys stay below this, so that they can be added to.
LARGEST_KEY = 1 << 62


@dataclass(frozen=True, eq=False)
class JoinedLog:
    """Offsets partitions laid end to end as one log, so that one pass of columns replays all of them.

    Its log offset of a record is the record's own plus the start of its partition. So it also shows the partition, as
    number in `partitions`. Groups, topics and producers keep their names: they are the same only within a partition.

        JoinedLog.over([17, 20], {17: 100, 20: 30})  ->  starts [0, 101]: record 5 of partition 20 is at 106, number 1
    """

    partitions: I64
    starts: I64

    @classmethod
    def over(cls, partitions: Sequence[int], ends: Mapping[int, int]) -> JoinedLog:
        """The log of ascending partitions. `ends`: log offsets after the last record of each. Raises KgroupsError for
        offsets that no broker writes."""
        sizes = [ends[number] + 1 for number in partitions[:-1]]
        if sum(sizes) > LARGEST_KEY:
            largest = max(partitions[:-1], key=lambda number: ends[number])
            raise KgroupsError(
                f"partition {largest} ends at log offset {ends[largest]}, which no broker writes: name the others by "
                "--partition"
            )
        return cls(np.array(partitions, np.int64), np.cumsum([0, *sizes]))

    def __len__(self) -> int:
        return len(self.partitions)

    def number_at(self, log_offset: I64) -> I64:
        """The number of the partition at each log offset of this log."""
        if len(self) == 1:
            return np.zeros_like(log_offset)
        return np.searchsorted(self.starts, log_offset, side="right") - 1

    def place_at(self, log_offset: int) -> tuple[int, int]:
        """The offsets partition at a log offset of this log, and its own log offset there."""
        number = bisect_right(self.starts, log_offset) - 1
        return int(self.partitions[number]), log_offset - int(self.starts[number])

    def number_of(self, rows: pa.Table) -> I64:
        """The number of each row's offsets_partition."""
        return np.searchsorted(self.partitions, numbers(rows["offsets_partition"]))

    def joined(self, rows: pa.Table, name: str = "log_offset") -> pa.Table:
        """Rows with offsets_partition, and with log offsets of this log in the column `name`."""
        if len(self) == 1:
            return rows
        return with_columns(rows, **{name: pc.add(rows[name], pa.array(self.starts[self.number_of(rows)]))})

    def parted(self, rows: pa.Table, by: str = "log_offset") -> dict[str, pa.ChunkedArray | pa.Array]:
        """The columns of rows with log offsets of this log: those of their partition instead, and offsets_partition.
        `by`: the column that shows the partition."""
        if len(self) == 1:
            return by_name(rows) | {"offsets_partition": constant(int(self.partitions[0]), len(rows), pa.int32())}
        number = self.number_at(numbers(rows[by]))
        columns = by_name(rows) | {"offsets_partition": pa.array(self.partitions[number].astype(np.int32))}
        start = pa.array(self.starts[number])
        places = [name for name in ("log_offset", "marker_offset", "transaction_start_offset") if name in columns]
        return columns | {name: pc.subtract(columns[name], start) for name in places}


# The log of one partition, whose number does not matter.
ALONE = JoinedLog.over([0], {})


@dataclass(frozen=True, eq=False)
class Markers:
    """k control records of a log, ascending by log offset. Times in ms, -1 for none; `outcome` is COMMIT, ABORT or
    NEITHER."""

    log: JoinedLog
    log_offset: I64
    log_timestamp: I64
    producer_id: I64
    outcome: I64

    def __len__(self) -> int:
        return len(self.log_offset)

    def ends(self) -> Markers:
        """The markers with outcome COMMIT or ABORT."""
        columns = (self.log_offset, self.log_timestamp, self.producer_id, self.outcome)
        return Markers(self.log, *(column[self.outcome != NEITHER] for column in columns))


@dataclass(frozen=True, eq=False)
class Places:
    """Log offsets as numbers from 0 to `span` - 1, so that an owner and a place make one sort key.

    The numbers ascend as the offsets do. NEVER is the last one.

        Places.over(2, [5, 9]).keys(owner=[0, 1], log_offset=[9, 5])  ->  [4, 6]    (span 6, lowest offset 5)
    """

    span: int
    _low: int
    _known: I64 | None

    @classmethod
    def over(cls, owners: int, *log_offsets: I64) -> Places:
        """Places for these log offsets (and NEVER) of so many owners."""
        some = [each if each.max(initial=0) != NEVER else each[each != NEVER] for each in log_offsets]
        low = min((int(each.min()) for each in some if len(each)), default=0)
        high = max((int(each.max()) for each in some if len(each)), default=0)
        if (high - low + 2) * max(owners, 1) < LARGEST_KEY:
            return cls(high - low + 2, low, None)
        known = np.unique(np.concatenate([np.zeros(0, np.int64), *some]))
        return cls(len(known) + 1, low, known)

    def keys(self, owner: I64, log_offset: I64) -> I64:
        """One number for each owner and log offset, ascending by both. Log offsets are those that were given to
        `over`."""
        if self._known is not None:
            return owner * self.span + np.searchsorted(self._known, log_offset)
        return owner * self.span + np.minimum(log_offset - self._low, self.span - 1)


def sorted_order(keys: I64) -> I64:
    """The order of the keys. Parts of history are sorted already, and the stable sort merges such runs cheaply."""
    return np.argsort(keys, kind="stable")


def starts_of(*columns: NDArray) -> Flags:
    """Marks the rows, of rows in order, at which one of the columns differs from the row before."""
    starts = np.ones(len(columns[0]), np.bool_)
    starts[1:] = False
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    return starts


def lasts_of(*columns: NDArray) -> Flags:
    """Marks the rows, of rows in order, at which one of the columns differs from the next row."""
    lasts = np.ones(len(columns[0]), np.bool_)
    lasts[:-1] = starts_of(*columns)[1:]
    return lasts


def latest_at(owner: I64, since: I64, asked: I64, at: I64) -> I64:
    """For each asked owner and log offset the owner's last row up to there; -1: it has none. Rows are by owner and
    `since`.

        rows (0, @12) (0, @15) (2, @13), asked (0, @14) (1, @14) (2, @12)  ->  [0, -1, -1]
    """
    if not len(owner):
        return np.full(len(asked), -1)
    places = Places.over(int(max(owner.max(), asked.max(initial=0))) + 1, since, at)
    found = np.searchsorted(places.keys(owner, since), places.keys(asked, at), side="right") - 1
    return np.where((found >= 0) & (owner[found] == asked), found, -1)


def next_marker(producer_id: I64, log_offset: I64, markers: Markers) -> I64:
    """For each record the index of its producer's next marker; -1: none follows.

    The marker's epoch is not compared: since KIP-890 it is one above the transaction's (T25).

        records (7, @10) (8, @11) (7, @13), markers [(7, @12)]  ->  [0, -1, -1]
    """
    if not len(markers) or not len(log_offset):
        return np.full(len(log_offset), -1, np.int64)
    producers, number = np.unique(markers.producer_id, return_inverse=True)
    places = Places.over(len(producers), log_offset, markers.log_offset)
    marker_keys = places.keys(number, markers.log_offset)
    order = np.argsort(marker_keys)
    own = np.minimum(np.searchsorted(producers, producer_id), len(producers) - 1)
    at = np.searchsorted(marker_keys[order], places.keys(own, log_offset), side="right")
    found = order[np.minimum(at, len(order) - 1)]
    number_at = markers.log.number_at
    is_own = (at < len(order)) & (markers.producer_id[found] == producer_id)
    is_own &= number_at(markers.log_offset[found]) == number_at(log_offset)
    return np.where(is_own, found, -1)


TEXT = pa.dictionary(pa.int32(), pa.string())
# A group: the number of its offsets partition in a log, and its name.
GroupKey = tuple[int, str]

# A record of type 0 or 1. Times are epoch ms as in the record; history keeps the bytes of values with a time that does
# not fit a TIMESTAMP.
OFFSET_RECORDS = pa.schema(
    [
        ("log_offset", pa.int64()),
        ("log_timestamp", pa.int64()),  # null: none
        ("offset_delta", pa.int32()),  # after the base offset of its batch; null: not known
        ("group_id", TEXT),
        ("topic", TEXT),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),  # null: tombstone
        ("leader_epoch", pa.int32()),  # null: none
        ("metadata", TEXT),  # null: tombstone
        ("commit_timestamp", pa.int64()),  # null: tombstone, or none
        ("expire_timestamp", pa.int64()),  # null: none
        ("topic_id", TEXT),  # null: none
        ("record_type", pa.int16()),
        ("value_version", pa.int16()),  # null: tombstone
        ("producer_id", pa.int64()),  # null: none; -1: none, in a transactional batch
        ("producer_epoch", pa.int16()),  # null: none
        ("is_transactional", pa.bool_()),
    ]
)
_TIMES = ("log_timestamp", "commit_timestamp", "expire_timestamp")
# Columns of offset_commits for `history_records`.
HISTORY_COLUMNS = (*OFFSET_RECORDS.names, "raw_value")


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots of some records, numbered by offsets partition, group, topic and partition: `group` and `topic` index
    the names. `group_in`: the number of each group's offsets partition in its log."""

    group: I64
    topic: I64
    partition: I64
    groups: pa.Array
    group_in: I64
    topics: pa.Array

    def __len__(self) -> int:
        return len(self.group)

    def keys(self) -> list[GroupKey]:
        """The groups with the number of their offsets partition."""
        return list(zip(self.group_in.tolist(), self.groups.to_pylist(), strict=True))


@dataclass(frozen=True, eq=False)
class Commits:
    """n records of types 0 and 1 in any order, as the numbers that decide their outcome.

    `is_readable`: the release reads a value of that version (always true for tombstones). `waits`: it is a value that
    waits for a marker. Producer -1: none.
    """

    log_offset: I64
    slot: I64
    producer_id: I64
    is_transactional: Flags
    is_tombstone: Flags
    is_readable: Flags
    waits: Flags
    slots: Slots

    def __len__(self) -> int:
        return len(self.log_offset)


def history_records(offset_commits: pa.Table, release: Release) -> pa.Table:
    """Rows of `offset_commits` as OFFSET_RECORDS. Releases before 4.1 do not read topic ids (KAFKA-19141)."""
    columns = {name: offset_commits.column(name) for name in OFFSET_RECORDS.names}
    columns |= {name: milliseconds(columns[name]) for name in _TIMES}
    if offset_commits.column("raw_value").null_count < len(offset_commits):
        # The times of values with kept bytes are read from the bytes.
        rows = np.flatnonzero(is_given(offset_commits["raw_value"]))
        some = offset_commits.select(["value_version", "raw_value"]).take(pa.array(rows)).to_pydict()
        commit, expire = (numbers(columns[name], none=-1).copy() for name in _TIMES[1:])
        for row, version, value in zip(rows.tolist(), some["value_version"], some["raw_value"], strict=True):
            fields, _ = reader("OffsetCommitValue", version).read(value, 2, [])
            commit[row], expire[row] = fields["commitTimestamp"], fields.get("expireTimestamp", -1)
        columns["commit_timestamp"] = pa.array(commit, mask=commit == -1)
        columns["expire_timestamp"] = pa.array(expire, mask=expire == -1)
    # Scala's coordinator has such a value wait for a marker of producer -1, and a saved state has producers by id.
    without_producer = pc.if_else(columns["is_transactional"], pa.scalar(-1, pa.int64()), pa.scalar(None, pa.int64()))
    columns["producer_id"] = pc.coalesce(columns["producer_id"], without_producer)
    if not release.has_topic_ids:
        columns["topic_id"] = pa.nulls(len(offset_commits), TEXT)
    return pa.table([columns[field.name].cast(field.type) for field in OFFSET_RECORDS], schema=OFFSET_RECORDS)


def number_slots(records: pa.Table, log: JoinedLog) -> tuple[I64, Slots]:
    """The slot number of each row with log_offset, group_id, topic and partition, and the slots.

    Consecutive rows of one slot, which are usual in a part of history, are looked up once.

        (g, t, 1) (g, t, 1) (g, t, 0) (a, t, 0)  ->  [2, 2, 1, 0], slots (a, t, 0) (g, t, 0) (g, t, 1)
    """
    group, groups = numbered(records.column("group_id"))
    topic, topics = numbered(records.column("topic"))
    partition, number = numbers(records["partition"]), log.number_at(numbers(records["log_offset"]))
    heads = np.flatnonzero(starts_of(number, group, topic, partition))
    owner = number[heads] * len(groups) + group[heads]
    pair, pairs = _unique(owner * max(len(topics), 1) + topic[heads])
    lowest = int(partition.min(initial=0))
    span = int(partition.max(initial=0)) - lowest + 1
    slot, slots = _unique(pair * span + (partition[heads] - lowest))
    owner, of_topic = np.divmod(pairs[slots // span], max(len(topics), 1))
    of_group, owners = _unique(owner)
    group_in, named = np.divmod(owners, max(len(groups), 1))
    found = Slots(of_group, of_topic, slots % span + lowest, groups.take(pa.array(named)), group_in, topics)
    return np.repeat(slot, np.diff(np.append(heads, len(group)))), found


def numbered(values: pa.ChunkedArray) -> tuple[I64, pa.Array]:
    """The index of each row's text in the sorted distinct texts, and these texts."""
    encoded = one_array(values)
    used = np.flatnonzero(np.bincount(encoded.indices.to_numpy()))
    texts = encoded.dictionary.take(pa.array(used))
    order = pc.sort_indices(texts).to_numpy()
    place = np.zeros(len(encoded.dictionary), np.int64)
    place[used[order]] = np.arange(len(order))
    return place[encoded.indices.to_numpy()], texts.take(pa.array(order))


def _unique(numbers: I64) -> tuple[I64, I64]:
    """The index of each number in the sorted distinct numbers, and these numbers."""
    order = sorted_order(numbers)
    starts = starts_of(numbers[order])
    place = np.empty(len(numbers), np.int64)
    place[order] = np.cumsum(starts) - 1
    return place, numbers[order[starts]]


def milliseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """TIMESTAMPs, which are exact to the millisecond, as epoch ms; nulls stay."""
    if not pa.types.is_timestamp(times.type):
        return times
    # NumPy divides by a constant in a tenth of Arrow's time.
    return pa.chunked_array([pa.array(numbers(times) // 1000, mask=~is_given(times) if times.null_count else None)])


# Ranges of slots: a shard with many commits is folded range by range, because slots do not depend on each other.


SLOT = ["group_id", "topic", "partition"]


class Border(NamedTuple):
    """A slot at which a range begins or ends; without topic and partition, the place before all slots of the group."""

    group_id: str
    topic: str = ""
    partition: int = int(np.iinfo(np.int32).min)


# Before all slots.
FIRST = Border("")


class SlotRange(NamedTuple):
    """Slots from `low` (inclusive) to `high` (exclusive; None: no bound), by group, topic and partition."""

    low: Border = FIRST
    high: Border | None = None

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows of these slots; group and topic are dictionaries."""
        return rows if self == EVERY_SLOT or not len(rows) else where(rows, self.includes(rows))

    def includes(self, rows: pa.Table) -> Flags:
        found = is_from(rows, self.low)
        return found if self.high is None else found & ~is_from(rows, self.high)

    def has(self, slot: Border) -> bool:
        return slot >= self.low and (self.high is None or slot < self.high)


EVERY_SLOT = SlotRange()
# A range and columns -> its rows, in pieces.
ReadRange = Callable[[SlotRange, Sequence[str]], Iterable[pa.Table]]


def is_from(rows: pa.Table, border: Border) -> Flags:
    """Whether each row's slot is the border or comes after it."""
    group = compared(rows["group_id"], border.group_id)
    if border == Border(border.group_id):
        return group >= 0
    found = group > 0
    same = np.flatnonzero(group == 0)
    if len(same):
        some = rows.select(SLOT[1:]).take(pa.array(same))
        topic = compared(some["topic"], border.topic)
        found[same] = (topic > 0) | ((topic == 0) & (numbers(some["partition"]) >= border.partition))
    return found


def from_border(border: Border) -> pc.Expression:
    """The same as a condition for rows of files."""
    group_id, topic, partition = map(pc.field, SLOT)
    if border == Border(border.group_id):  # Arrow knows then which row groups have no such rows
        return group_id >= border.group_id
    in_topic = (topic == border.topic) & (partition >= border.partition)
    return (group_id > border.group_id) | ((group_id == border.group_id) & ((topic > border.topic) | in_topic))


def compared(texts: pa.ChunkedArray, text: str) -> NDArray[np.int8]:
    """-1, 0 or 1: each of the texts comes before this one, is the same, or comes after it."""
    encoded = one_array(texts)
    # The dictionary has few texts, and the column many rows.
    after, before = (flags(compare(encoded.dictionary, text)) for compare in (pc.greater, pc.less))
    return np.asarray((after.astype(np.int8) - before)[encoded.indices.to_numpy()])


def ranges_between(borders: Iterable[Border]) -> list[SlotRange]:
    """The ranges between these borders, and those below and above.

    [Border("b"), Border("f", "t", 1)]  ->  below b, from b to before f's t-1, from there on
    """
    edges = sorted(borders)
    return list(map(SlotRange, [FIRST, *edges], [*edges, None]))


def ranges_of(sizes: dict[Border, int], read: ReadRange, *at_once: int) -> list[list[SlotRange]]:
    """For each of these numbers, which ascend, ranges with about so many rows, each within one of the next number.

    `sizes`: how many rows there are from a border on to the next one. Where they are more than the first number, ranges
    are of whole groups, and where one group has more, of slots. Ranges that are half full end at these borders.
    """
    given = set(sizes)
    for columns in (SLOT[:1], SLOT):
        borders = sorted(sizes)
        for low, high in zip(borders, [*borders, None][1:], strict=True):
            if sizes[low] > at_once[0]:
                del sizes[low]
                sizes |= _sizes(read(SlotRange(low, high), columns), columns)
    found = []
    for most in at_once:
        together, first = dict[Border, int](), FIRST
        for border in sorted(sizes):
            is_half = bool(together) and together[first] >= most / 2
            if not together or (is_half and border in given) or together[first] + sizes[border] > most:
                first, together[border] = border, 0
            together[first] += sizes[border]
        sizes = together
        found.append(ranges_between([*sizes][1:]))
    return found


def _sizes(pieces: Iterable[pa.Table], columns: list[str]) -> dict[Border, int]:
    """The number of rows of each group, or of each slot. Rows of one slot are mostly together."""
    sizes = Counter[Border]()
    for rows in pieces:
        values = [one_array(rows[name]) for name in columns]
        codes = (each.indices if pa.types.is_dictionary(each.type) else each for each in values)
        heads = np.flatnonzero(starts_of(*(each.to_numpy() for each in codes)))
        borders = zip(*(each.take(pa.array(heads)).to_pylist() for each in values), strict=True)
        for border, count in zip(borders, np.diff(np.append(heads, len(rows))).tolist(), strict=True):
            sizes[Border(*border)] += count
    return sizes
