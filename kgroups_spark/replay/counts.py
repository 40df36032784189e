"""Counts of the records in a range, by group and hour of log time: the rows of `group_traffic`.

Several ranges of one offsets partition may have records of the same group and hour. So a range passes its rows on to
the replay of the partition, which adds them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import add
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.findings.finding import NEAR_LIMIT_BYTES, TIME_OFF_MS
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS, CoordinatorRecord, absolute_hashes
from kgroups_spark.messages.offset_commits import OffsetCommitColumns, OffsetKeys
from kgroups_spark.offsets.columns import GroupKey, milliseconds, starts_of
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.tables.rows import is_given, numbers, one_array, table_of_rows
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.words import HOUR_MS, LAST_MS, to_epoch_ms

NO_HOUR = np.iinfo(np.int64).min

# Summed over rows with the same key.
COUNTS = ("commits", "tombstones", "transactional_commits", "other_records", "bytes")


class DecodedChunk(NamedTuple):
    """Decoded records of a joined log, with the number of their partition. `others`: types 2 to 23, with index."""

    records: RecordColumns
    number: NDArray[np.int64]
    commits: OffsetCommitColumns
    keys: OffsetKeys
    others: list[tuple[int, CoordinatorRecord]]


class GroupTraffic:
    """Adds up records by group and hour."""

    def __init__(self) -> None:
        self.counts = dict[tuple[GroupKey, int], list[int]]()

    def add_chunk(self, chunk: DecodedChunk) -> None:
        records, number, commits, keys, others = chunk
        size = np.maximum(records.key_length, 0) + np.maximum(records.value_length, 0)
        # The table has one hour for all times beyond a TIMESTAMP, so they count as one.
        hours = np.where(records.timestamp < 0, NO_HOUR, np.minimum(records.timestamp, LAST_MS) // HOUR_MS)
        for row, record in others:
            self._add((int(number[row]), record.group_id), int(hours[row]), [0, 0, 0, 1, int(size[row])])
        names, rows = keys.group_id.dictionary, commits.rows
        if not len(rows):
            return
        # The number of the partition, times the number of groups, plus the index of the group.
        group = number[rows] * len(names) + keys.group_id.indices.to_numpy()[commits.code]
        used = np.arange(len(names))
        if int(group.max()) >= len(used):
            used, group = np.unique(group, return_inverse=True)
        hours, is_tombstone = hours[rows], commits.is_tombstone
        hour_values, hour = (hours[:1], None) if (hours == hours[0]).all() else np.unique(hours, return_inverse=True)
        width = len(used)
        at = group if hour is None else hour * width + group
        cells = width * len(hour_values)
        kinds = ~is_tombstone, is_tombstone, ~is_tombstone & records.is_transactional[rows]
        size_bytes = np.bincount(at, weights=size[rows], minlength=cells)
        counts = [*(np.bincount(at[each], minlength=cells) for each in kinds), np.zeros(cells), size_bytes]
        cell, counts_of_cell = np.flatnonzero(size_bytes), np.stack(counts, axis=1).astype(np.int64)
        columns = used[cell % width] // len(names), hour_values[cell // width], counts_of_cell[cell]
        group_ids = names.take(pa.array(used[cell % width] % len(names))).to_pylist()
        for group_id, of, hour_of, counted in zip(group_ids, *(each.tolist() for each in columns), strict=True):
            self._add((of, group_id), hour_of, counted)

    def _add(self, group: GroupKey, hour: int, counted: list[int]) -> None:
        before = self.counts.get((group, hour))
        self.counts[group, hour] = counted if before is None else [*map(add, before, counted)]

    def rows(self, audit_id: int, partitions: Sequence[int]) -> pa.Table:
        """Rows of `group_traffic`; `partitions`: those of the log."""
        rows = [
            (partitions[number], group_id, None if hour == NO_HOUR else hour * HOUR_MS, *counts)
            for ((number, group_id), hour), counts in self.counts.items()
        ]
        return table_of_rows("group_traffic", None, rows, audit_id=audit_id)


def summed(rows: pa.Table) -> pa.Table:
    """Rows of `group_traffic` with one row for each key: counts of equal keys are added up."""
    sums = rows.group_by(list(TABLES["group_traffic"].key)).aggregate([(name, "sum") for name in COUNTS])
    names = [name.removesuffix("_sum") for name in sums.column_names]
    schema = arrow_schema("group_traffic")
    return sums.rename_columns(names).select(schema.names).cast(schema)


# Records for findings, noted while they are read: no table has their size.


# The fields of LargeRecord and of TimesOff without the offsets partition, which the range has.
Large = tuple[str, str, int, int | None, int]
Off = tuple[str, str, int, int, int, int, int]


class OddRecords:
    """Odd records. `large`: the newest of each group and type. `times_off`: each group's first, and their number."""

    def __init__(self) -> None:
        self._large: dict[tuple[int, str, int], Large] = {}
        self._off: dict[GroupKey, Off] = {}

    def add_chunk(self, chunk: DecodedChunk, starts: NDArray[np.int64]) -> None:
        """Notes the odd ones among all decoded records of a chunk. `starts`: of the partitions in the log."""
        records, number, commits, keys, others = chunk
        offset = records.offset - starts[number]
        for row, record in others:
            size = int(records.key_length[row]) + max(0, int(records.value_length[row]))
            if size >= NEAR_LIMIT_BYTES:
                name, time = CONSUMER_OFFSETS[record.record_type].name, int(records.timestamp[row])
                large = (record.group_id, name, int(offset[row]), None if time < 0 else time, size)
                self._large[int(number[row]), record.group_id, record.record_type] = large
        # Clipped against overflow: a broker accepts any commit time from a client.
        reported = records.timestamp[commits.rows]
        committed, clipped = np.clip(commits.commit_timestamp, -1, 1 << 60), np.clip(reported, -1, 1 << 60)
        is_known = ~commits.is_tombstone & (committed >= 0) & (clipped >= 0)
        off = np.flatnonzero(is_known & (np.abs(committed - clipped) > TIME_OFF_MS))
        if not len(off):
            return
        names = keys.group_id.dictionary
        group = number[commits.rows[off]] * len(names) + keys.group_id.indices.to_numpy()[commits.code[off]]
        groups, firsts, counts = np.unique(group, return_index=True, return_counts=True)
        for at, first, count in zip(groups.tolist(), off[firsts].tolist(), counts.tolist(), strict=True):
            of, name = divmod(at, len(names))
            key, code = (of, names[name].as_py()), int(commits.code[first])
            if key in self._off:
                *before, so_far = self._off[key]
                self._off[key] = (*before, so_far + count)
                continue
            slot = (key[1], keys.topic[code].as_py(), int(keys.partition[code]))
            times = (int(commits.commit_timestamp[first]), int(reported[first]))
            self._off[key] = (*slot, int(offset[commits.rows[first]]), *times, count)

    def of(self, number: int) -> tuple[list[Large], list[Off]]:
        """`large` and `times_off` of a partition."""
        large = sorted(each for key, each in self._large.items() if key[0] == number)
        return large, sorted(each for key, each in self._off.items() if key[0] == number)


# Types with values that name topics by id and name, and the fields with these topics.
TOPIC_FIELDS = {4: ("topics",), 9: ("topics",), 15: ("initializingTopics", "initializedTopics", "deletingTopics")}
NEVER = 1 << 63
COMMIT, GROUP_RECORD, CLUSTER = "offset_commit", "group_record", "cluster"

# Topic id, topic, log time in ms or None, source.
Sighting = tuple[str, str, int | None, str]


class TopicNames:
    """topic id -> name and earliest sighting, so that the order in which ranges and nights are read does not matter."""

    types = frozenset(TOPIC_FIELDS)

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str, str]] = {}

    def add(self, topic_id: str, topic: str, timestamp: int, source: str) -> None:
        """Adds one sighting; `timestamp` in epoch ms, -1 for none."""
        sighting = (NEVER if timestamp < 0 else timestamp, source, topic)
        self._seen[topic_id] = min(self._seen.get(topic_id, sighting), sighting)

    def add_commits(self, rows: pa.Table) -> None:
        """Adds the sightings in rows of `offset_commits`, of which those of one topic are mostly together."""
        at = np.flatnonzero(is_given(rows["topic_id"]))
        if not len(at):
            return
        given = rows.select(["topic_id", "topic", "log_timestamp"]).take(pa.array(at))
        names = [one_array(given[name]).dictionary_encode() for name in ("topic_id", "topic")]
        starts = np.flatnonzero(starts_of(*(each.indices.to_numpy() for each in names)))
        seen = np.minimum.reduceat(numbers(milliseconds(given["log_timestamp"]), none=LAST_MS + 1), starts)
        topic_ids, topics = (each.take(pa.array(starts)).cast(pa.string()).to_pylist() for each in names)
        for topic_id, topic, timestamp in zip(topic_ids, topics, seen.tolist(), strict=True):
            self.add(topic_id, topic, -1 if timestamp > LAST_MS else timestamp, COMMIT)

    def add_value(self, record_type: int, value: dict[str, Any] | None, timestamp: int) -> None:
        """Adds the topics in the value of a record of types 2 to 23."""
        lists = [value.get(name) or () for name in TOPIC_FIELDS.get(record_type, ())] if value is not None else []
        for topic in chain.from_iterable(lists):
            self.add(topic["topicId"], topic["topicName"], timestamp, GROUP_RECORD)

    def rows(self) -> list[Sighting]:
        """The earliest sighting of each topic id."""
        return [(i, topic, None if at == NEVER else at, source) for i, (at, source, topic) in self._seen.items()]

    def merge(self, rows: Iterable[Sighting]) -> None:
        for topic_id, topic, timestamp, source in rows:
            self.add(topic_id, topic, -1 if timestamp is None else timestamp, source)


# The largest number that is tried; Kafka's default is 50.
MOST_PARTITIONS = 2000


def fitting_partition_counts(group_ids: Iterable[str], offsets_partition: int) -> list[int]:
    """The numbers of partitions under which all these groups hash to the partition."""
    hashes = absolute_hashes(list(group_ids))
    counts = np.arange(offsets_partition + 1, MOST_PARTITIONS + 1)
    for some in np.split(hashes, range(4, len(hashes), 1024)):  # the first few leave few numbers
        counts = counts[(some[:, None] % counts == offsets_partition).all(axis=0)]
    found: list[int] = counts.tolist()
    return found


def fitting_by_partition(groups: pa.Table, most: int | None = None) -> list[list[int]]:
    """For each offsets partition of the groups (offsets_partition, group_id) the numbers that fit all of its groups.
    `most`: only so many rows of each are looked at (None: all)."""
    found = []
    for number in groups["offsets_partition"].unique().to_pylist():
        its = groups.filter(pc.equal(groups["offsets_partition"], number))["group_id"].slice(length=most).unique()
        found.append(fitting_partition_counts(its.to_pylist(), number))
    return found


def counts_in_all(fitting: Iterable[Iterable[int]]) -> set[int]:
    """The numbers that are in all of these: one is the number, several may be decided by more groups, and if there is
    none, a group or a partition is in the wrong place."""
    sets = list(map(set, fitting))
    return set.intersection(*sets) if sets else set()


def sightings(topics: Iterable[Mapping[str, Any]]) -> list[Sighting]:
    """Rows of the table `topics` as sightings."""
    return [(r["topic_id"], r["topic"], _ms(r["seen_log_timestamp"]), r["source"]) for r in topics]


def _ms(seen: datetime | None) -> int | None:
    return None if seen is None else to_epoch_ms(seen)
