"""The names of the topic ids in a range, from offset commits v4 and from records with both id and name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.messages.schema import uuid_text

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
        self._grow(int(code.max()) + 1)
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

    def _grow(self, codes: int) -> None:
        if codes > len(self._ids):
            more = max(codes, 2 * len(self._ids)) - len(self._ids)
            self._ids = np.concatenate([self._ids, np.zeros((more, 2), np.uint64)])
            self._earliest = np.concatenate([self._earliest, np.full(more, NO_TIME)])

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
