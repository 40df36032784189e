"""The contents of `group_records.value` for each record type, from Kafka's message definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kgroups_spark.messages.definition import Field, definition
from kgroups_spark.messages.embedded import PROTOCOLS
from kgroups_spark.messages.record_types import RecordType

# Fields whose bytes are a message of clients' protocols, by record type (messages/group_metadata.py): the field with
# the protocol type (None: always the first protocol), and the message of each protocol.
BLOBS: dict[tuple[int, tuple[str, ...]], tuple[str | None, dict[str, str]]] = {
    (2, ("members", "subscription")): ("protocolType", {name: both[0] for name, both in PROTOCOLS.items()}),
    (2, ("members", "assignment")): ("protocolType", {name: both[1] for name, both in PROTOCOLS.items()}),
    (5, ("classicMemberMetadata", "supportedProtocols", "metadata")): (None, {"consumer": PROTOCOLS["consumer"][0]}),
}


@dataclass(frozen=True)
class JsonField:
    """A field of the JSON. `type`: one of definition.SCALARS, "time" (ms since 1970), or "struct" with `fields`."""

    key: str
    type: str
    is_array: bool = False
    fields: tuple[JsonField, ...] = ()
    may_be_null: bool = False
    # First version of the message that has it; None: all have.
    since: int | None = None
    # The layouts that have it; None: all.
    layouts: tuple[str, ...] | None = None
    # For a parsed blob: the field with the protocol type, and the fields of each protocol's message.
    protocol_key: str | None = None
    protocols: tuple[tuple[str, tuple[JsonField, ...]], ...] = ()

    @property
    def has_blobs(self) -> bool:
        return bool(self.protocols) or any(field.has_blobs for field in self.fields)


def value_fields(kind: RecordType) -> tuple[JsonField, ...]:
    """The fields of a record type's value in any of its layouts, those of the released one first.

    Raises ValueError if a field has two types.
    """
    names = tuple(message.layout for message in kind.layouts)
    found: dict[str, JsonField] = {}
    for message in kind.layouts:
        for field in _fields(message.fields, message.versions, kind.number if not message.layout else None):
            known = found.get(field.key)
            layouts = (*((known.layouts or ()) if known else ()), message.layout)
            found[field.key] = replace(_merged(known or field, field), layouts=layouts)
    return tuple(replace(f, layouts=None) if f.layouts == names else f for f in found.values())


def _fields(
    fields: Sequence[Field], versions: range, number: int | None, path: tuple[str, ...] = ()
) -> list[JsonField]:
    """Fields of a message, or of one of its structs that exists in `versions`. `number`: the record type; None: blobs
    are not parsed."""
    found = []
    for field in fields:
        here = (*path, field.name)
        if field.versions.stop < versions.stop:
            raise ValueError(f"{field.name} is gone from version {field.versions.stop} on: no such field was known")
        if number is not None and (number, here) in BLOBS:
            found += _blob(field.name, *BLOBS[number, here])
            continue
        since = field.versions.start if field.versions.start > versions.start else None
        own = range(max(field.versions.start, versions.start), versions.stop)
        found.append(
            JsonField(
                field.name,
                _type(field),
                field.is_array,
                tuple(_fields(field.fields, own, number, here)),
                may_be_null=bool(field.nullable),
                since=since,
            )
        )
    return found


def _type(field: Field) -> str:
    if field.fields:
        return "struct"
    is_time = field.element == "int64" and field.name.lower().endswith("timestamp")
    return "time" if is_time else field.element


def _blob(key: str, protocol_key: str | None, messages: dict[str, str]) -> list[JsonField]:
    """The field of the parsed blob, with the fields of all protocols, and the field of the blob as bytes."""
    # Before the message is its version, which may be above the known ones.
    version, known = JsonField("version", "int16"), {protocol: definition(name) for protocol, name in messages.items()}
    protocols = tuple((name, (version, *_fields(of.fields, of.versions, None))) for name, of in known.items())
    every = _united(field for _, fields in protocols for field in fields)
    read = JsonField(key, "struct", fields=every, protocol_key=protocol_key, protocols=protocols)
    return [read, JsonField(f"{key}Raw", "bytes")]


def _united(fields: Iterable[JsonField]) -> tuple[JsonField, ...]:
    """The fields without repetition; fields with the same key are merged."""
    found: dict[str, JsonField] = {}
    for field in fields:
        found[field.key] = _merged(found.get(field.key, field), field)
    return tuple(found.values())


def _merged(one: JsonField, other: JsonField) -> JsonField:
    """A field of two layouts, or of two protocols. Raises ValueError if their types differ."""
    if (one.type, one.is_array) != (other.type, other.is_array):
        raise ValueError(f"{one.key} is {one.type} in one layout and {other.type} in another")
    return replace(one, fields=_united((*one.fields, *other.fields)))
