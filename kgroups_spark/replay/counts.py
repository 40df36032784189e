"""Counts of the records in a range, by group and hour of log time: the rows of `group_traffic`.

Several ranges of one offsets partition may have records of the same group and hour. So a range passes its rows on to
the replay of the partition, which adds them up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.findings.finding import NEAR_LIMIT_BYTES, TIME_OFF_MS
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS, CoordinatorRecord, java_hash, value_from_json
from kgroups_spark.messages.offset_commits import OffsetCommitColumns, OffsetKeys
from kgroups_spark.messages.schema import uuid_text
from kgroups_spark.offsets.columns import milliseconds
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.words import HOUR_MS, LAST_MS, to_epoch_ms

NO_HOUR = np.iinfo(np.int64).min

# Summed over rows with the same key.
COUNTS = ("commits", "tombstones", "transactional_commits", "other_records", "bytes")

COMMITS, TOMBSTONES, TRANSACTIONAL_COMMITS, OTHER_RECORDS, BYTES = range(5)


class GroupTraffic:
    """Adds up records by (group, hour); groups are named once, by `group_ids`."""

    def __init__(self) -> None:
        self._counts = defaultdict[tuple[str, int], NDArray[np.int64]](lambda: np.zeros(len(COUNTS), np.int64))

    def add_chunk(
        self,
        records: RecordColumns,
        commits: OffsetCommitColumns,
        keys: OffsetKeys,
        decoded: list[tuple[int, CoordinatorRecord]],
    ) -> None:
        size = np.maximum(records.key_length, 0) + np.maximum(records.value_length, 0)
        self.add_commits(
            keys.groups,
            keys.group[commits.code].astype(np.int64),
            records.timestamp[commits.rows],
            commits.is_tombstone,
            records.is_transactional[commits.rows],
            size[commits.rows],
        )
        for row, record in decoded:
            self.add_record(record.group_id, int(records.timestamp[row]), int(size[row]))

    def add_commits(
        self,
        group_ids: list[str],
        group: NDArray[np.int64],
        timestamp: NDArray[np.int64],
        is_tombstone: NDArray[np.bool_],
        is_transactional: NDArray[np.bool_],
        size_bytes: NDArray[np.int64],
    ) -> None:
        """Adds offset commits of one chunk. `group` indexes `group_ids`; `timestamp` is in epoch ms, -1 for none."""
        if not len(group):
            return
        # The table has one hour for all times beyond a TIMESTAMP, so they count as one.
        hours = np.where(timestamp < 0, NO_HOUR, np.minimum(timestamp, LAST_MS) // HOUR_MS)
        hour_values, hour = (hours[:1], None) if (hours == hours[0]).all() else np.unique(hours, return_inverse=True)
        width = len(group_ids)
        at = group if hour is None else hour * width + group
        size = width * len(hour_values)
        counts = np.zeros((size, 5), np.int64)
        counts[:, COMMITS] = np.bincount(at[~is_tombstone], minlength=size)
        counts[:, TOMBSTONES] = np.bincount(at[is_tombstone], minlength=size)
        counts[:, TRANSACTIONAL_COMMITS] = np.bincount(at[~is_tombstone & is_transactional], minlength=size)
        counts[:, BYTES] = np.bincount(at, weights=size_bytes, minlength=size)
        for row in np.nonzero(counts[:, BYTES])[0].tolist():
            self._counts[group_ids[row % width], int(hour_values[row // width])] += counts[row]

    def add_record(self, group_id: str, timestamp: int, size_bytes: int) -> None:
        """Adds one record of another type; `timestamp` is in epoch ms, negative for none."""
        hour = NO_HOUR if timestamp < 0 else min(timestamp, LAST_MS) // HOUR_MS
        self._counts[group_id, hour] += np.array([0, 0, 0, 1, size_bytes])

    def rows(self) -> Iterator[tuple[str, int | None, list[int]]]:
        """(group id, start of the hour in ms or None, counts in the order of the constants above)."""
        for (group_id, hour), counts in self._counts.items():
            yield group_id, None if hour == NO_HOUR else hour * HOUR_MS, counts.tolist()

    def batch(self, **constants: int) -> pa.RecordBatch:
        """Rows of `group_traffic`; `constants` are columns with the same value in all rows."""
        rows = [(group_id, hour, *counts) for group_id, hour, counts in self.rows()]
        return table_batch("group_traffic", None, rows, **constants)


def summed(rows: pa.Table) -> pa.Table:
    """Rows of `group_traffic` with one row for each key: counts of equal keys are added up."""
    by_key = rows.group_by(list(TABLES["group_traffic"].key))
    sums = by_key.aggregate([(name, "sum") for name in COUNTS])
    names = [name.removesuffix("_sum") for name in sums.column_names]
    schema = arrow_schema("group_traffic")
    return sums.rename_columns(names).select(schema.names).cast(schema)


# Records for findings, noted while they are read: no table has their size.


# The fields of LargeRecord and of TimesOff without the offsets partition, which the range has.
Large = tuple[str, str, int, int | None, int]
Off = tuple[str, str, int, int, int, int, int]


class OddRecords:
    """Odd records of a range. `large`: the newest of each group and record type. `times_off`: the first of each group,
    and their number."""

    def __init__(self) -> None:
        self._large: dict[tuple[str, int], Large] = {}
        self._off: dict[str, Off] = {}

    def add_chunk(
        self,
        records: RecordColumns,
        commits: OffsetCommitColumns,
        keys: OffsetKeys,
        decoded: list[tuple[int, CoordinatorRecord]],
    ) -> None:
        """Notes the odd ones among all decoded records of a chunk."""
        for row, record in decoded:
            size = int(records.key_length[row]) + max(0, int(records.value_length[row]))
            if size >= NEAR_LIMIT_BYTES:
                name, time = CONSUMER_OFFSETS[record.record_type].name, int(records.timestamp[row])
                large = (record.group_id, name, int(records.offset[row]), None if time < 0 else time, size)
                self._large[record.group_id, record.record_type] = large
        # Clipped against overflow: a broker accepts any commit time from a client.
        reported = records.timestamp[commits.rows]
        committed, clipped = np.clip(commits.commit_timestamp, -1, 1 << 60), np.clip(reported, -1, 1 << 60)
        is_known = ~commits.is_tombstone & (committed >= 0) & (clipped >= 0)
        off = np.flatnonzero(is_known & (np.abs(committed - clipped) > TIME_OFF_MS))
        groups, firsts, counts = np.unique(keys.group[commits.code[off]], return_index=True, return_counts=True)
        for number, first, count in zip(groups.tolist(), off[firsts].tolist(), counts.tolist(), strict=True):
            group_id, code = keys.groups[number], int(commits.code[first])
            if group_id in self._off:
                *before, so_far = self._off[group_id]
                self._off[group_id] = (*before, so_far + count)
                continue
            slot = (group_id, keys.topic[code].as_py(), int(keys.partition[code]))
            times = (int(commits.commit_timestamp[first]), int(reported[first]))
            self._off[group_id] = (*slot, int(records.offset[commits.rows[first]]), *times, count)

    @property
    def large(self) -> list[Large]:
        return sorted(self._large.values())

    @property
    def times_off(self) -> list[Off]:
        return sorted(self._off.values())


# The names of the topic ids in a range, from offset commits v4 and from records with both id and name.


# Types with values that name topics by id and name, and the fields with these topics.
TOPIC_FIELDS = {4: ("topics",), 9: ("topics",), 15: ("initializingTopics", "initializedTopics", "deletingTopics")}
NEVER = 1 << 63
NO_TIME = np.iinfo(np.int64).max
COMMIT, GROUP_RECORD, CLUSTER = "offset_commit", "group_record", "cluster"

# Topic id, topic, log time in ms or None, source.
Sighting = tuple[str, str, int | None, str]

# The topic of a key's code.
TopicsOf = Callable[[int], str]


class TopicNames:
    """topic id -> name and earliest sighting, so that the order in which ranges and nights are read does not matter."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str, str]] = {}
        # By key code: the first topic id, and its earliest log time.
        self._ids = np.zeros((0, 2), np.uint64)
        self._earliest = np.zeros(0, np.int64)

    def add(self, topic_id: str, topic: str, timestamp: int, source: str) -> None:
        """Adds one sighting; `timestamp` in epoch ms, -1 for none."""
        sighting = (NEVER if timestamp < 0 else timestamp, source, topic)
        self._seen[topic_id] = min(self._seen.get(topic_id, sighting), sighting)

    def add_commits(
        self, code: NDArray[np.int64], topic_id: NDArray[np.uint8], timestamp: NDArray[np.int64], topics: TopicsOf
    ) -> None:
        """Adds offset commits: the key's code, the topic id (16 bytes, zero: none) and the log time (ms) of each."""
        ids = np.ascontiguousarray(topic_id).view(np.uint64)
        rows = np.flatnonzero(has_id(ids))
        if not len(rows):
            return
        code, ids, timestamp = code[rows], ids[rows], np.where(timestamp[rows] < 0, NO_TIME, timestamp[rows])
        if (codes := int(code.max()) + 1) > len(self._ids):
            more = max(codes, 2 * len(self._ids)) - len(self._ids)
            self._ids = np.concatenate([self._ids, np.zeros((more, 2), np.uint64)])
            self._earliest = np.concatenate([self._earliest, np.full(more, NO_TIME)])
        known = self._ids[code]
        new = ~has_id(known)
        if new.any():
            self._ids[code[new]] = ids[new]
            known = self._ids[code]
        same = (known[:, 0] == ids[:, 0]) & (known[:, 1] == ids[:, 1])
        np.minimum.at(self._earliest, code[same], timestamp[same])
        for row in np.nonzero(~same)[0].tolist():  # the topic was created again: another id
            at = int(timestamp[row])
            self.add(uuid_text(ids[row].tobytes()), topics(int(code[row])), at if at < NO_TIME else -1, COMMIT)

    def settle_commits(self, topics: pa.StringArray) -> None:
        """Adds the sightings that add_commits has collected, given the topic of each code. It must be called before
        rows(), and before codes are given to other keys."""
        codes = np.flatnonzero(has_id(self._ids))
        if not len(codes):
            return
        names = topics.take(pa.array(codes)).dictionary_encode()
        raw = pa.py_buffer(np.ascontiguousarray(self._ids[codes]))
        ids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(codes), [None, raw]).dictionary_encode()
        # One number for a topic id with a name: NumPy's unique() costs five times as much over three columns.
        pairs = ids.indices.to_numpy().astype(np.int64) * len(names.dictionary) + names.indices.to_numpy()
        distinct, at = np.unique(pairs, return_inverse=True)
        earliest = np.full(len(distinct), NO_TIME)
        np.minimum.at(earliest, at, self._earliest[codes])
        for pair, time in zip(distinct.tolist(), earliest.tolist(), strict=True):
            id_, name = divmod(pair, len(names.dictionary))
            topic_id, topic = uuid_text(ids.dictionary[id_].as_py()), names.dictionary[name].as_py()
            self.add(topic_id, topic, time if time < NO_TIME else -1, COMMIT)
        self._ids, self._earliest = self._ids[:0], self._earliest[:0]

    def add_value(self, record_type: int, value: dict[str, Any] | None, timestamp: int) -> None:
        """Adds the topics in the value of a record of types 2 to 23."""
        for topic_id, topic in named_topics(record_type, value):
            self.add(topic_id, topic, timestamp, GROUP_RECORD)

    def rows(self) -> list[Sighting]:
        """The earliest sighting of each topic id."""
        return [(i, topic, None if at == NEVER else at, source) for i, (at, source, topic) in self._seen.items()]

    def merge(self, rows: Iterable[Sighting]) -> None:
        """Adds the rows of another TopicNames."""
        for topic_id, topic, timestamp, source in rows:
            self.add(topic_id, topic, -1 if timestamp is None else timestamp, source)


def has_id(halves: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows of uint64[n, 2] are a topic id (not zero). NumPy's any() costs ten times as much on so short an
    axis."""
    is_set: NDArray[np.bool_] = (halves[:, 0] | halves[:, 1]) != 0
    return is_set


def named_topics(record_type: int, value: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    """(topic id, topic) of every topic that the value has by id and name."""
    for name in TOPIC_FIELDS.get(record_type, ()) if value is not None else ():
        for topic in value.get(name) or ():  # type: ignore[union-attr]
            yield topic["topicId"], topic["topicName"]


# The number of partitions of `__consumer_offsets` if it is not given: the only number that fits every group's hash.


# The largest number that is tried; Kafka's default is 50.
MOST_PARTITIONS = 2000


class FittingCounts:
    """The numbers of partitions under which all groups seen so far hash to the partition."""

    def __init__(self, offsets_partition: int) -> None:
        self._offsets_partition = offsets_partition
        self._counts = np.arange(offsets_partition + 1, MOST_PARTITIONS + 1)

    def see(self, group_ids: Iterable[str]) -> None:
        hashes = np.array([java_hash(group_id) for group_id in group_ids], np.int64)
        magnitudes = np.where(hashes == -(1 << 31), 0, np.abs(hashes))
        for magnitude in np.unique(magnitudes).tolist():
            self._counts = self._counts[magnitude % self._counts == self._offsets_partition]

    def rest(self) -> list[int]:
        return [int(count) for count in self._counts]


def fitting_partition_counts(group_ids: Iterable[str], offsets_partition: int) -> list[int]:
    """The numbers of partitions under which all these groups hash to the partition."""
    fitting = FittingCounts(offsets_partition)
    fitting.see(group_ids)
    return fitting.rest()


def fitting_by_partition(groups: Iterable[tuple[int, str]]) -> list[list[int]]:
    """For each offsets partition of the (offsets_partition, group_id) pairs the numbers that fit all of its groups."""
    by_partition: dict[int, list[str]] = {}
    for number, group_id in groups:
        by_partition.setdefault(number, []).append(group_id)
    return [fitting_partition_counts(group_ids, number) for number, group_ids in by_partition.items()]


def partition_count(fitting: Iterable[Iterable[int]]) -> int | None:
    """The only number in all of these; None: there is none, or more than one."""
    common = _common(fitting)
    return next(iter(common)) if len(common) == 1 else None


def is_ambiguous(fitting: Iterable[Iterable[int]]) -> bool:
    """Whether more than one number is in all of these, so that more groups may decide."""
    return len(_common(fitting)) > 1


def fits_none(fitting: Sequence[Iterable[int]]) -> bool:
    """Whether no number is in all of these: a group or a partition is in the wrong place."""
    return bool(fitting) and not _common(fitting)


def _common(fitting: Iterable[Iterable[int]]) -> set[int]:
    sets = list(map(set, fitting))
    return set.intersection(*sets) if sets else set()


# Names in the whole history: names of topic ids, and the possible numbers of partitions of the offsets topic.


# The columns in which names are looked for.
NAMING = {
    "offset_commits": ("group_id", "topic", "topic_id", "log_timestamp"),
    "group_records": ("group_id", "record_type", "value", "log_timestamp"),
}


@dataclass(frozen=True)
class HistoryNames:
    """`topics`: (topic id, topic, earliest log time in epoch ms or None, source). `partition_counts`: for each offsets
    partition the numbers of partitions under which all groups seen there hash to it."""

    topics: tuple[Sighting, ...]
    partition_counts: tuple[tuple[int, ...], ...]

    def with_topics(self, topics: Iterable[Sighting]) -> HistoryNames:
        """These names, and the sightings of earlier audits."""
        names = TopicNames()
        names.merge(self.topics)
        names.merge(topics)
        return replace(self, topics=tuple(names.rows()))


def sightings(topics: Iterable[Mapping[str, Any]]) -> list[Sighting]:
    """Rows of the table `topics` as sightings."""
    return [(r["topic_id"], r["topic"], _ms(r["seen_log_timestamp"]), r["source"]) for r in topics]


def _ms(seen: datetime | None) -> int | None:
    return None if seen is None else to_epoch_ms(seen)


@dataclass
class NamesOfShard:
    """Collects the names in records of an offsets partition."""

    offsets_partition: int
    topics: TopicNames = field(default_factory=TopicNames)
    groups: set[str] = field(default_factory=set)

    def see(self, table: str, rows: pa.Table) -> None:
        """Adds the names in rows of offset_commits or group_records; ignores other tables."""
        if table not in NAMING:
            return
        self.groups.update(rows["group_id"].cast(pa.string()).unique().to_pylist())
        if table == "offset_commits":
            named = rows.filter(rows["topic_id"].is_valid())
            columns = {name: named[name].cast(pa.string()) for name in ("topic_id", "topic")}
            times = pa.table({**columns, "seen": milliseconds(named["log_timestamp"])})
            for row in times.group_by(["topic_id", "topic"]).aggregate([("seen", "min")]).to_pylist():
                seen = -1 if row["seen_min"] is None else row["seen_min"]
                self.topics.add(row["topic_id"], row["topic"], seen, COMMIT)
            return
        naming = rows.filter(pc.field("record_type").isin([*TOPIC_FIELDS]) & pc.field("value").is_valid())
        of_records = (naming["record_type"], naming["value"], milliseconds(naming["log_timestamp"]))
        for record_type, text, seen in zip(*(column.to_pylist() for column in of_records), strict=True):
            self.topics.add_value(record_type, value_from_json(text), -1 if seen is None else seen)

    def rest(self) -> dict[str, Any]:
        """All collected names, as a JSON value."""
        counts = [fitting_partition_counts(self.groups, self.offsets_partition)] if self.groups else []
        return {"topics": self.topics.rows(), "partition_counts": counts}


def names_of_shards(reported: Iterable[dict[str, Any]]) -> HistoryNames:
    """The names of all shards, from the results of NamesOfShard."""
    topics, counts = TopicNames(), list[tuple[int, ...]]()
    for each in reported:
        topics.merge(tuple(sighting) for sighting in each["topics"])
        counts += map(tuple, each["partition_counts"])
    return HistoryNames(tuple(topics.rows()), tuple(counts))
