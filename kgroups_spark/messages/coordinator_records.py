"""Records of a coordinator's log: key and value bytes -> CoordinatorRecord or Undecodable.

Rules, in their order, the same for all logs (semantics as in CoordinatorRecordSerde and GroupCoordinatorRecordSerde,
4.3; TransactionLog.read, 4.3, calls the record type, with which a key begins, a version):

1. A record without a key, or with a key that cannot be read, is undecodable. A type that no release had is unknown,
   tombstone or not (T41).
2. A null value is a tombstone. For all other values the rules of value_layouts.py hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kgroups_spark.messages.coordinator_logs import COORDINATOR_LOGS, CoordinatorLog
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.messages.record_types import RecordType
from kgroups_spark.messages.schema import MessageReader, Truncated, base64_text
from kgroups_spark.messages.value_layouts import BadValue, Content, Layout, ToJson, read_value, value_layouts

# The cached keys are dropped when they exceed either bound. Bytes are bounded, too, because names may be long.
MOST_KEYS = 1 << 16
MOST_BYTES = 16 << 20

_NO_KEY = Undecodable("null_key", "The record has no key, so nothing says what it is about")


@dataclass(slots=True)
class CoordinatorRecord:
    """A decoded record of a coordinator's log, or its tombstone. It must not be changed: equal parts may be one
    object."""

    record_type: int
    record_name: str
    key: dict[str, Any]  # fields in Kafka's JSON spelling, uuids as Kafka prints them
    value_version: int | None  # None: tombstone
    layout: str  # "" released; "3.7", "4.0" early access; "?4.0" released, but the bytes fit both wholly (T58)
    is_key_exact: bool
    content: Content | None  # None: tombstone

    @property
    def group_id(self) -> str:
        """The group of a record of `__consumer_offsets` or `__share_group_state`."""
        group_id: str = self.key["group"] if "group" in self.key else self.key["groupId"]
        return group_id

    @property
    def member_id(self) -> str | None:
        return self.key.get("memberId")

    @property
    def regular_expression(self) -> str | None:
        return self.key.get("regularExpression")

    @property
    def is_tombstone(self) -> bool:
        return self.content is None

    @property
    def value(self) -> dict[str, Any] | None:
        """The decoded value; None: tombstone. Parsed on first access."""
        return None if self.content is None else self.content.value

    @property
    def keeps_raw(self) -> bool:
        """Whether key and value bytes have more than this record: left-over bytes, unknown tags, improper UTF-8."""
        return not self.is_key_exact or (self.content is not None and not self.content.is_exact)

    def value_json(self) -> str | None:
        """The value as JSON text; None: tombstone."""
        return None if self.content is None else self.content.json()


@dataclass(frozen=True, slots=True)
class RecordKey:
    """A key that was read."""

    record_type: RecordType
    fields: dict[str, Any]
    is_exact: bool


class CoordinatorRecordDecoder:
    """Decodes the records of one log one at a time; caches keys. `to_json`: for values of these record types, whose
    bytes fields are not base64 but protocol blobs."""

    def __init__(self, log: CoordinatorLog, to_json: Mapping[int, ToJson] | None = None) -> None:
        self.log = log
        self._to_json = to_json or {}
        self._known_keys: dict[bytes, RecordKey | Undecodable] = {}
        self._known_bytes = 0

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | Undecodable:
        """The record, its tombstone, or the reason why it cannot be used."""
        known = self._key(key)
        if isinstance(known, Undecodable):
            return known
        if value is None:
            return record_of(known, None, "", None)
        kind = known.record_type
        to_json = self._to_json.get(kind.number)
        layouts = _layouts(self.log.topic, kind.number, has_blobs=to_json is not None)
        try:
            version, layout, fields, notes = read_value(kind.name, layouts, value)
        except BadValue as bad:
            return _undecodable(known, bad)
        return record_of(known, version, layout, Content(fields, notes, to_json))

    def _key(self, key: bytes | None) -> RecordKey | Undecodable:
        """The key, or the reason why it cannot be used. Most records of a log have a key that was seen before."""
        if key is None:
            return _NO_KEY
        known = self._known_keys.get(key)
        if known is None:
            known = self._read_key(key)
            self._known_bytes += len(key)
            if len(self._known_keys) >= MOST_KEYS or self._known_bytes > MOST_BYTES:
                self._known_keys.clear()
                self._known_bytes = len(key)
            self._known_keys[key] = known
        return known

    def _read_key(self, key: bytes) -> RecordKey | Undecodable:
        if len(key) < 2:
            return Undecodable("truncated", f"The key has {len(key)} bytes, too few for a record type")
        number = int.from_bytes(key[:2], "big", signed=True)
        record_type = self.log.record_types.get(number)
        if record_type is None:
            detail = f"Record type {number} of {self.log.topic} is unknown to every release"
            return Undecodable("unknown_record_type", detail, number)
        notes: list[str] = []
        try:
            fields, end = _key_reader(self.log.topic, number).read(key, 2, notes)
        except Truncated as error:
            return Undecodable("truncated", str(error), number, record_type.name)
        return RecordKey(record_type, fields, end == len(key) and not notes)


def record_of(key: RecordKey, version: int | None, layout: str, content: Content | None) -> CoordinatorRecord:
    kind = key.record_type
    return CoordinatorRecord(kind.number, kind.name, key.fields, version, layout, key.is_exact, content)


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


# Compiling all readers takes a tenth of a second, so each process does it once for all decoders.
@cache
def _key_reader(topic: str, number: int) -> MessageReader:
    return MessageReader(COORDINATOR_LOGS[topic].record_types[number].key, 0)


@cache
def _layouts(topic: str, number: int, *, has_blobs: bool) -> dict[int, list[Layout]]:
    """Value version -> layouts, the released one first. Protocol blobs remain bytes."""
    return value_layouts(COORDINATOR_LOGS[topic].record_types[number], bytes if has_blobs else base64_text)


def _undecodable(key: RecordKey, bad: BadValue) -> Undecodable:
    fields = key.fields
    return Undecodable(
        bad.reason,
        bad.detail,
        key.record_type.number,
        key.record_type.name,
        fields.get("groupId", fields.get("group")),
        fields.get("memberId"),
        fields.get("topic"),
        partition=fields.get("partition"),
        value_version=bad.version,
        topic_id=fields.get("topicId"),
        transactional_id=fields.get("transactionalId"),
    )
