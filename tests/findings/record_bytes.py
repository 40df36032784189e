"""Records of __consumer_offsets as bytes, from Kafka's message definitions: keys and values from plain dicts."""

from __future__ import annotations

import base64
import struct
from typing import Any

from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from kgroups_spark.messages.schema import Definition, Field, definition
from tests.records.build import KeyValue

FIXED = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q"}
Json = dict[str, Any]


def record(record_type: int, key: Json, value: Json | None, version: int = 0) -> KeyValue:
    """A record; fields that are not given have their defaults. `value` None: a tombstone."""
    kind = CONSUMER_OFFSETS[record_type]
    key_bytes = struct.pack(">h", record_type) + message(kind.key, key, 0)
    return key_bytes, None if value is None else struct.pack(">h", version) + message(kind.layouts[0], value, version)


def blob(name: str, value: Json, version: int = 0) -> bytes:
    """A message with its version inside a field of bytes."""
    return struct.pack(">h", version) + message(definition(name), value, version)


def message(of: Definition, value: Json, version: int) -> bytes:
    unknown = value.keys() - {field.name for field in of.fields}
    assert not unknown, unknown
    return _struct(of.fields, value, version, version in of.flexible)


def _struct(fields: tuple[Field, ...], value: Json, version: int, flexible: bool) -> bytes:
    out, tags = b"", []
    for field in fields:
        if version not in field.versions:
            continue
        given = value.get(field.name, field.default)
        if field.tag is not None and version in field.tagged:
            if field.name in value and given != field.default:
                tags.append((field.tag, _tagged(field, given, version)))
            continue
        out += _value(field, given, version, flexible)
    if flexible:
        out += uvarint(len(tags))
        for tag, data in sorted(tags):
            out += uvarint(tag) + uvarint(len(data)) + data
    return out


def _tagged(field: Field, given: Any, version: int) -> bytes:
    if field.fields and not field.is_array:  # T59
        return b"\0" if given is None else b"\1" + _struct(field.fields, given, version, True)
    return _value(field, given, version, True)


def _value(field: Field, given: Any, version: int, flexible: bool) -> bytes:
    if field.is_array:
        if given is None:
            return b"\0" if flexible else struct.pack(">i", -1)
        head = uvarint(len(given) + 1) if flexible else struct.pack(">i", len(given))
        return head + b"".join(_scalar(field, each, version, flexible) for each in given)
    return _scalar(field, given, version, flexible)


def _scalar(field: Field, given: Any, version: int, flexible: bool) -> bytes:
    if field.fields:
        if version in field.nullable and not field.is_array:  # T59
            return b"\xff" if given is None else b"\1" + _struct(field.fields, given, version, flexible)
        return _struct(field.fields, given, version, flexible)
    if field.element in FIXED:
        return struct.pack(FIXED[field.element], int(given))
    if field.element == "uuid":
        return base64.urlsafe_b64decode(given + "==")
    if given is None:
        return b"\0" if flexible else struct.pack(">h" if field.element == "string" else ">i", -1)
    data = given.encode() if isinstance(given, str) else given
    if flexible:
        return uvarint(len(data) + 1) + data
    return struct.pack(">h" if field.element == "string" else ">i", len(data)) + data


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
