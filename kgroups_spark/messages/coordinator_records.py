"""Records of `__share_group_state` and `__transaction_state`: key and value bytes -> CoordinatorRecord or Undecodable.

One decoder for any log (coordinator_logs.py); its rules are those of group_records.py. (CoordinatorRecordSerde, 4.3;
TransactionLog.read, 4.3: a key begins with the record type, which that class calls a version.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kgroups_spark.messages.coordinator_logs import COORDINATOR_LOGS, CoordinatorLog
from kgroups_spark.messages.known_keys import KnownKeys
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.messages.record_types import RecordType
from kgroups_spark.messages.schema import MessageReader, Truncated
from kgroups_spark.messages.value_layouts import BadValue, Content, Layout, WithContent, read_value, value_layouts


@dataclass(slots=True)
class CoordinatorRecord(WithContent):
    """A decoded record of a coordinator's log, or a tombstone. It must not be changed."""

    record_type: int
    record_name: str
    key: dict[str, Any]  # fields in Kafka's JSON spelling, uuids as Kafka prints them
    value_version: int | None  # None: tombstone
    layout: str  # "" released; "4.0" early access; "?4.0" released, but the bytes fit both wholly (T58)
    is_key_exact: bool
    content: Content | None  # None: tombstone


@dataclass(frozen=True, slots=True)
class _Key:
    record_type: RecordType
    fields: dict[str, Any]
    is_exact: bool


class CoordinatorRecordDecoder:
    """Decodes the records of one log one at a time; caches keys."""

    def __init__(self, log: CoordinatorLog) -> None:
        self.log = log
        self._keys = KnownKeys(self._read_key)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | Undecodable:
        """The record, its tombstone, or the reason why it cannot be used."""
        known = self._keys.of(key)
        if isinstance(known, Undecodable):
            return known
        kind = known.record_type
        if value is None:
            return CoordinatorRecord(kind.number, kind.name, known.fields, None, "", known.is_exact, None)
        try:
            version, layout, fields, notes = read_value(kind.name, _layouts(self.log.topic, kind.number), value)
        except BadValue as bad:
            return _undecodable(known, bad)
        content = Content(fields, notes, None)
        return CoordinatorRecord(kind.number, kind.name, known.fields, version, layout, known.is_exact, content)

    def _read_key(self, number: int, key: bytes) -> _Key | Undecodable:
        record_type = self.log.record_types.get(number)
        if record_type is None:
            detail = f"Record type {number} of {self.log.topic} is unknown to every release"
            return Undecodable("unknown_record_type", detail, number)
        notes: list[str] = []
        try:
            fields, end = _key_reader(self.log.topic, number).read(key, 2, notes)
        except Truncated as error:
            return Undecodable("truncated", str(error), number, record_type.name)
        return _Key(record_type, fields, end == len(key) and not notes)


def log_of_keys(keys: Iterable[bytes | None]) -> CoordinatorLog | None:
    """The log that most keys fit, to the last byte; None: no key fits a log, or as many fit another."""
    fits = Counter(topic for key in keys if key is not None for topic in COORDINATOR_LOGS if _is_key_of(topic, key))
    most = fits.most_common(2)
    if not most or (len(most) == 2 and most[0][1] == most[1][1]):
        return None
    return COORDINATOR_LOGS[most[0][0]]


def _is_key_of(topic: str, key: bytes) -> bool:
    number = int.from_bytes(key[:2], "big", signed=True)
    if len(key) < 2 or number not in COORDINATOR_LOGS[topic].record_types:
        return False
    try:
        return _key_reader(topic, number).read(key, 2, [])[1] == len(key)
    except Truncated:
        return False


@cache
def _key_reader(topic: str, number: int) -> MessageReader:
    return MessageReader(COORDINATOR_LOGS[topic].record_types[number].key, 0)


@cache
def _layouts(topic: str, number: int) -> dict[int, list[Layout]]:
    return value_layouts(COORDINATOR_LOGS[topic].record_types[number])


def _undecodable(key: _Key, bad: BadValue) -> Undecodable:
    fields = key.fields
    return Undecodable(
        bad.reason,
        bad.detail,
        key.record_type.number,
        key.record_type.name,
        fields.get("groupId"),
        partition=fields.get("partition"),
        value_version=bad.version,
        topic_id=fields.get("topicId"),
        transactional_id=fields.get("transactionalId"),
    )
