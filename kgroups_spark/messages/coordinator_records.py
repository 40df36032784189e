"""Records of a coordinator's log: key and value bytes -> CoordinatorRecord or Undecodable.

Rules, in their order, the same for all logs (semantics as in CoordinatorRecordSerde and GroupCoordinatorRecordSerde,
4.3; TransactionLog.read, 4.3, calls the record type, with which a key begins, a version):

1. A record without a key, or with a key that cannot be read, is undecodable. A type that no release had is unknown,
   tombstone or not (T41).
2. A null value is a tombstone. For all other values the rules of value_layouts.py hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.messages.group_metadata import ProtocolTexts, group_metadata_texts
from kgroups_spark.messages.schema import BytesValue, Definition, MessageReader, Truncated, all_definitions, base64_text
from kgroups_spark.records.columns import RecordColumns

# The partition of `__consumer_offsets` that a group belongs to.

_SIGN = 0x80000000


def java_hashes(texts: Sequence[str]) -> NDArray[np.int64]:
    """String.hashCode, signed 32 bit, of each text, over UTF-16 code units: a character beyond the BMP counts as two
    surrogates."""
    encoded = [text.encode("utf-16-le", "surrogatepass") for text in texts]
    lengths = np.array([len(each) // 2 for each in encoded], np.int64)
    ends = np.cumsum(lengths)
    # The sum of unit * 31 ** (units after it) in the text, modulo 2 ** 32.
    powers = np.cumprod(np.full(lengths.max(initial=0), 31, np.uint32), dtype=np.uint32)
    after = np.repeat(ends, lengths) - np.arange(lengths.sum()) - 1
    terms = np.frombuffer(b"".join(encoded), np.uint16) * np.append(np.uint32(1), powers)[after]
    sums = np.append(np.uint32(0), np.cumsum(terms, dtype=np.uint32))
    return np.asarray(sums[ends] - sums[ends - lengths]).view(np.int32).astype(np.int64)


def absolute_hashes(texts: Sequence[str]) -> NDArray[np.int64]:
    """Utils.abs of the hashes, which turns Integer.MIN_VALUE into 0 (T50; partitionFor, every release). Modulo the
    number of partitions it is a group's partition."""
    hashes = java_hashes(texts)
    return np.where(hashes == -_SIGN, 0, np.abs(hashes))


# Record types of the coordinators' topics: name, key, and the layouts of the value, all from the definitions.

OFFSET_COMMIT_TYPES = (0, 1)


class RecordType(NamedTuple):
    number: int
    name: str  # as in Kafka's message files, without Key or Value: "GroupMetadata"
    key: Definition
    layouts: tuple[Definition, ...]  # of the value: the released one first, then early-access ones (T58)


def record_types(topic: str) -> dict[int, RecordType]:
    """The record types of a topic by number. Types 18 and 24 were in no release: they are missing, so unknown."""
    messages = [m for m in all_definitions() if m.topic == topic]
    keys = {m.api_key: m for m in messages if m.type == "coordinator-key" and m.api_key is not None}
    found = {}
    for number, key in sorted(keys.items()):
        values = [m for m in messages if m.type == "coordinator-value" and m.api_key == number]
        layouts = tuple(sorted(values, key=lambda m: m.layout))
        found[number] = RecordType(number, key.name.removesuffix("Key"), key, layouts)
    return found


CONSUMER_OFFSETS = record_types("__consumer_offsets")
SHARE_GROUP_STATE = record_types("__share_group_state")
TRANSACTION_STATE = record_types("__transaction_state")


# The logs of Kafka's coordinators, as data. A record's partition is Utils.abs(String.hashCode) modulo the count, of
# the group id (GroupCoordinatorService.partitionFor), `groupId:topicId:partition` (ShareCoordinatorService, 4.0 to
# 4.4), or the transactional id (TransactionStateManager, 0.11 to 4.4).


class CoordinatorLog(NamedTuple):
    """One of the topics."""

    topic: str
    coordinator: Literal["group", "share", "transaction"]
    record_types: Mapping[int, RecordType]
    # `compact`: the cleaner drops records that newer ones replace. `delete`: DeleteRecords moves the log's start.
    clean_up_policy: Literal["compact", "delete"]


GROUP_LOG = CoordinatorLog("__consumer_offsets", "group", CONSUMER_OFFSETS, "compact")
SHARE_LOG = CoordinatorLog("__share_group_state", "share", SHARE_GROUP_STATE, "delete")
TRANSACTION_LOG = CoordinatorLog("__transaction_state", "transaction", TRANSACTION_STATE, "compact")
COORDINATOR_LOGS = {log.topic: log for log in (GROUP_LOG, SHARE_LOG, TRANSACTION_LOG)}


# Outcomes of decoding a record that cannot be used. The set of reasons is closed.

REASONS = ("unknown_record_type", "unknown_value_version", "truncated", "empty_value", "null_key")


class Undecodable(NamedTuple):
    """A record that cannot be used, and the fields of it that could be read (else None)."""

    reason: str  # one of REASONS
    detail: str  # one sentence that a person can act on
    record_type: int | None = None
    record_name: str | None = None
    group_id: str | None = None
    member_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    value_version: int | None = None
    topic_id: str | None = None
    transactional_id: str | None = None


# Values of coordinator records: their version and layout, and why some cannot be read. The same for every log.
#
# Rules (as in CoordinatorRecordSerde, 4.3):
#
# - A null value is a tombstone, which the caller handles. A value of no bytes is not one: it is an error (T42).
# - Versions that a type never had are unknown.
# - A value is read in the released layout. If an early-access release used the same version for another layout, that
#   one is used if it reads all bytes, without unknown tags, and the released one does not read all (T58).
# - Bytes left over and unknown tags are not errors, but the record keeps its raw bytes.

# Each early-access layout: its name, its fields, and values for the fields that it lacks.
EarlyAccess = list[tuple[str, list[str], dict[str, Any]]]


class BadValue(Exception):
    """A value that cannot be used. `args`: one of REASONS, a sentence, and the version if that was readable."""


class Layout(NamedTuple):
    """One layout of one value version. `missing`: values for the released layout's fields that this one lacks."""

    name: str
    reader: MessageReader
    missing: dict[str, Any]


class ReadValue(NamedTuple):
    """A value that was read. `layout`: "" released; "4.0" early access; "?4.0" released, but the bytes fit both."""

    version: int
    layout: str
    fields: dict[str, Any]
    notes: list[str]


# A value's fields -> JSON. May change the fields, and notes what the text lacks.
ToJson = Callable[[dict[str, Any], list[str]], bytes]


class Content:
    """A value whose bytes are sound. Its protocol blobs are parsed on first access. `json`: a column of one row."""

    __slots__ = ("_fields", "_json", "_notes", "_to_json", "_value")

    def __init__(
        self, fields: dict[str, Any], notes: list[str], to_json: ToJson | None, json: pa.StringArray | None = None
    ) -> None:
        self._fields = fields
        self._notes = notes
        self._to_json = to_json
        self._json: str | pa.StringArray | None = json
        self._value = fields if to_json is None and json is None else None

    @property
    def value(self) -> dict[str, Any]:
        if self._value is None:
            self._value = orjson.loads(self.json())
        return self._value

    @property
    def is_exact(self) -> bool:
        """Whether the value has all the information of its bytes."""
        if self._to_json:
            self.json()
        return not self._notes

    def json(self) -> str:
        if self._json is None:
            to_json = self._to_json(self._fields, self._notes) if self._to_json else orjson.dumps(self._fields)
            self._json = to_json.decode()
        return self._json if isinstance(self._json, str) else str(self._json[0])

    def column(self) -> pa.StringArray:
        """The JSON as a column of one row."""
        return self._json if isinstance(self._json, pa.StringArray) else pa.array([self.json()], pa.string())


def value_layouts(
    record_type: RecordType, bytes_value: BytesValue = base64_text, early_bytes: BytesValue = base64_text
) -> dict[int, list[Layout]]:
    """Value version -> layouts, the released one first; these functions convert bytes of it, and of the others."""
    found: dict[int, list[Layout]] = {}
    released = record_type.layouts[0]
    for message in record_type.layouts:
        for version in message.versions:
            reader = MessageReader(message, version, bytes_value=early_bytes if message.layout else bytes_value)
            found.setdefault(version, []).append(Layout(message.layout, reader, _missing(released, message)))
    return found


def read_value(name: str, layouts: Mapping[int, list[Layout]], value: bytes) -> ReadValue:
    """The value of a record of the type `name`, its version and layout. Raises BadValue."""
    if not value:
        detail = f"{name} has a value of no bytes: neither a tombstone, which is null, nor a value"
        raise BadValue("empty_value", detail, None)
    if len(value) < 2:
        raise BadValue("truncated", f"{name} has a value of 1 byte, too few for a version", None)
    version = int.from_bytes(value[:2], "big", signed=True)
    known = layouts.get(version)
    if known is None:
        versions = f"{min(layouts)} to {max(layouts)} are" if len(layouts) > 1 else f"{min(layouts)} is"
        detail = f"{name}Value version {version} is unknown ({versions} known)"
        raise BadValue("unknown_value_version", detail, version)
    try:
        return ReadValue(version, *_read_layouts(known, value))
    except Truncated as error:
        raise BadValue("truncated", str(error), version) from error


def early_access(record_types: Mapping[int, RecordType]) -> dict[int, EarlyAccess]:
    """The record types that had another layout in an early-access release (T58)."""
    found: dict[int, EarlyAccess] = {}
    for number, kind in record_types.items():
        for layout in kind.layouts[1:]:
            names = [field.name for field in layout.fields]
            found.setdefault(number, []).append((layout.layout, names, _missing(kind.layouts[0], layout)))
    return found


def _missing(released: Definition, message: Definition) -> dict[str, Any]:
    """The values for fields that another layout lacks: an empty array, else None (not known)."""
    names = {f.name for f in message.fields}
    return {f.name: [] if f.is_array else None for f in released.fields if f.name not in names}


def _read_layouts(layouts: list[Layout], value: bytes) -> tuple[str, dict[str, Any], list[str]]:
    """Layout name, fields and notes. Raises Truncated, with the released layout's error."""
    released, *early = layouts
    fits: list[tuple[Layout, dict[str, Any]]] = []
    for layout in early:
        # Only without notes: a tag section can contain nearly anything, and no early-access release wrote any.
        noted: list[str] = []
        with suppress(Truncated):
            fields, end = layout.reader.read(value, 2, noted)
            if end == len(value) and not noted:
                fits.append((layout, fields))
    notes: list[str] = []
    try:
        fields, end = released.reader.read(value, 2, notes)
    except Truncated:
        if not fits:
            raise
        end = -1
    if fits and end != len(value):
        layout, fields = fits[0]
        return layout.name, {**fields, **layout.missing}, []
    if end != len(value):
        notes.append("bytes left over")
    return f"?{fits[0][0].name}" if fits else released.name, fields, notes


# The cached keys are dropped when they exceed either bound. Bytes are bounded, too, because names may be long.
MOST_KEYS = 1 << 16
MOST_BYTES = 16 << 20

_NO_KEY = Undecodable("null_key", "The record has no key, so nothing says what it is about")


@dataclass(slots=True)
class CoordinatorRecord:
    """A decoded record of a coordinator's log, or its tombstone; not to be changed, as equal parts are shared."""

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


class RecordKey(NamedTuple):
    record_type: RecordType
    fields: dict[str, Any]
    is_exact: bool


class CoordinatorRecordDecoder:
    """Decodes the records of one log one at a time; caches keys. `to_json`: for values of these record types, whose
    bytes fields are not base64 but protocol blobs. `is_raw`: bytes fields of all types are bytes."""

    def __init__(
        self, log: CoordinatorLog, to_json: Mapping[int, ToJson] | None = None, *, is_raw: bool = False
    ) -> None:
        self.log = log
        self._to_json = to_json or {}
        self._is_raw = is_raw
        self._known_keys: dict[bytes, RecordKey | Undecodable] = {}
        self._known_bytes = 0

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | Undecodable:
        """The record, its tombstone, or the reason why it cannot be used."""
        known = self.key(key)
        if isinstance(known, Undecodable):
            return known
        if value is None:
            return record_of(known, None, "", None)
        kind = known.record_type
        to_json = self._to_json.get(kind.number)
        layouts = _layouts(self.log.topic, kind.number, has_blobs=to_json is not None, is_raw=self._is_raw)
        try:
            version, layout, fields, notes = read_value(kind.name, layouts, value)
        except BadValue as bad:
            return _undecodable(known, bad)
        return record_of(known, version, layout, Content(fields, notes, to_json))

    def key(self, key: bytes | None) -> RecordKey | Undecodable:
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


# Compiling all readers takes a tenth of a second, so each process does it once for all decoders.
@cache
def _key_reader(topic: str, number: int) -> MessageReader:
    return MessageReader(COORDINATOR_LOGS[topic].record_types[number].key, 0)


@cache
def _layouts(topic: str, number: int, *, has_blobs: bool, is_raw: bool) -> dict[int, list[Layout]]:
    """Value version -> layouts, the released one first. Protocol blobs remain bytes."""
    early: BytesValue = bytes if is_raw else base64_text
    return value_layouts(COORDINATOR_LOGS[topic].record_types[number], bytes if has_blobs else early, early)


def _undecodable(key: RecordKey, bad: BadValue) -> Undecodable:
    fields, (reason, detail, version) = key.fields, bad.args
    return Undecodable(
        reason,
        detail,
        key.record_type.number,
        key.record_type.name,
        fields.get("groupId", fields.get("group")),
        fields.get("memberId"),
        fields.get("topic"),
        partition=fields.get("partition"),
        value_version=version,
        topic_id=fields.get("topicId"),
        transactional_id=fields.get("transactionalId"),
    )


# Records of types 2 to 23 of `__consumer_offsets`, from their bytes and from `group_records`.


class JsonRecord(NamedTuple):
    """A record of types 2 to 23 as it is in `group_records`. `content`: its value, or the JSON text of it."""

    record_type: int
    group_id: str
    member_id: str | None
    regular_expression: str | None
    value_version: int | None
    content: str | dict[str, Any] | None

    @property
    def record_name(self) -> str:
        return CONSUMER_OFFSETS[self.record_type].name

    @property
    def value(self) -> dict[str, Any] | None:
        return value_from_json(self.content) if isinstance(self.content, str) else self.content


def value_from_json(text: str) -> dict[str, Any]:
    """The value from its value_json(), for any record type."""
    value: dict[str, Any] = orjson.loads(text)
    return value


def layout_of(record_type: int, value: dict[str, Any]) -> str:
    """The early-access layout of a value from `value_from_json`; "" for any other. Fields that such a layout lacks come
    after its own, with fixed values."""
    for layout, names, missing in EARLY_ACCESS.get(record_type, ()):
        if [*value] == [*names, *missing] and all(value[name] == absent for name, absent in missing.items()):
            return layout
    return ""


# Below this, GroupMetadata values cost less one at a time: a chunk of a usual log has a dozen of them.
FEW_BYTES = 1 << 17


class GroupRecordDecoder(CoordinatorRecordDecoder):
    """Decodes the log's records one at a time, or a chunk's together; caches keys."""

    def __init__(self) -> None:
        protocols = ProtocolTexts()
        super().__init__(GROUP_LOG, {2: protocols.group_metadata_json, 5: protocols.member_metadata_json})

    def decode_rows(self, records: RecordColumns, rows: NDArray[np.int64]) -> list[CoordinatorRecord | Undecodable]:
        """The same for records of a chunk. The JSON texts of plain GroupMetadata values are made together."""
        starts = records.key_start[rows]
        is_group_metadata = (records.data[starts] == 0) & (records.data[starts + 1] == 2)
        big = rows[is_group_metadata & (records.key_length[rows] >= 2) & (records.value_length[rows] > 0)]
        if records.value_length[big].sum() < FEW_BYTES:
            big = big[:0]
        made = group_metadata_texts(records.data, records.value_start[big], records.value_length[big])
        # By row the JSON of its value if that is plain, and therefore exact.
        texts = {row: made.slice(number, 1) for number, row in enumerate(big.tolist())}
        found: list[CoordinatorRecord | Undecodable] = []
        for row in rows.tolist():
            key, text = records.key(row), texts.get(row)
            if text is None or text.null_count:
                found.append(self.decode(key, records.value(row)))
            elif isinstance(known := self.key(key), Undecodable):
                found.append(known)
            else:
                version = int(records.data[int(records.value_start[row]) + 1])
                found.append(record_of(known, version, "", Content({}, [], None, text)))
        return found


EARLY_ACCESS = early_access(CONSUMER_OFFSETS)


# Keys and values of records of any coordinator's log, as Arrow columns: the result of the public `decode`.
#
# Keys and values are JSON with Kafka's own field names. Protocol blobs in values of groups are parsed.

_DECODED: dict[str, tuple[pa.DataType, str]] = {
    "record_type": (pa.int16(), "Kafka's number; null: not a coordinator's record"),
    "record_name": (pa.string(), "GroupMetadata, ShareSnapshot, TransactionLog ..."),
    "group_id": (pa.string(), "null: the record is about no group"),
    "transactional_id": (pa.string(), "null: not of __transaction_state"),
    "record_key": (pa.string(), "JSON with Kafka's field names"),
    "value_version": (pa.int16(), "null: tombstone"),
    "record_value": (pa.string(), "JSON with Kafka's field names; null: tombstone"),
    "reason": (pa.string(), "why it cannot be decoded; null: it can"),
    "detail": (pa.string(), "one sentence about that"),
}
DECODED = pa.struct([pa.field(name, kind, metadata={"comment": text}) for name, (kind, text) in _DECODED.items()])
Decoded = tuple[Any, ...]
_NOTHING: Decoded = (None,) * DECODED.num_fields
OTHER_TOPIC = "other_topic"


def _undecoded(topic: str | None) -> Decoded:
    if topic is None:
        return _NOTHING
    said = f"topic {topic} is not a coordinator's log" if topic else "the row has no topic"
    detail = (
        f"{said}; for a copy of a log give its name as the argument topic: decode(frame, topic='{GROUP_LOG.topic}')"
    )
    return (*_NOTHING[:-2], OTHER_TOPIC, detail)


class RecordsDecoder:
    """Decodes records of all logs one at a time; caches keys."""

    def __init__(self) -> None:
        decoders = (GroupRecordDecoder(), *map(CoordinatorRecordDecoder, (SHARE_LOG, TRANSACTION_LOG)))
        self._of_log = {decoder.log.topic: decoder for decoder in decoders}

    def decode(self, topics: Iterable[str | None], keys: pa.Array, values: pa.Array) -> pa.StructArray:
        """A row of DECODED each: OTHER_TOPIC if the topic is none of ours (`""`: unknown), nulls if it is null."""
        records = zip(topics, keys.to_pylist(), values.to_pylist(), strict=True)
        rows = [
            self._row(self._of_log[topic], key, value) if topic in self._of_log else _undecoded(topic)
            for topic, key, value in records
        ]
        columns = list(zip(*rows, strict=True)) or [() for _ in DECODED]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, DECODED, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(DECODED))

    def _row(self, decoder: CoordinatorRecordDecoder, key: bytes | None, value: bytes | None) -> Decoded:
        record = decoder.decode(key, value)
        if isinstance(record, Undecodable):
            whose = (record.record_type, record.record_name, record.group_id, record.transactional_id)
            return (*whose, None, record.value_version, None, record.reason, record.detail)
        fields = record.key
        return (
            record.record_type,
            record.record_name,
            fields.get("groupId", fields.get("group")),
            fields.get("transactionalId"),
            orjson.dumps(fields).decode(),
            record.value_version,
            record.value_json(),
            None,
            None,
        )
