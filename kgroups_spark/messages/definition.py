"""Kafka's record layouts as data: the files in `definitions/`, one message each.

The files have the form of Kafka's own message files (`group-coordinator/src/main/resources/common/message`): name,
type, validVersions, flexibleVersions, fields with versions, nullableVersions, tag, taggedVersions and default. Their
fields are those of 4.4, which reads every release since 0.9. Two keys are ours. `topic`: record types are numbered per
topic. `layout`: the release with this early-access layout, if a later release took the same type and version for
another one (3.7: KIP-848; 4.0: KIP-932).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from kgroups_spark.package_data import names_in_package, package_text

ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
SCALARS = ("int8", "int16", "uint16", "int32", "int64", "uuid", "string", "bytes")
_NO_VERSION = range(0)
_OPEN = 1 << 15


@dataclass(frozen=True)
class Field:
    """One field. `element` is the type without `[]`; `fields` are those of a struct, otherwise empty."""

    name: str
    element: str
    is_array: bool
    versions: range
    nullable: range
    tag: int | None
    tagged: range
    default: Any
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Definition:
    name: str
    type: str
    api_key: int | None
    topic: str | None
    layout: str
    versions: range
    flexible: range
    fields: tuple[Field, ...]


def parse_versions(text: str | None) -> range:
    """ "3", "0-4", "2+" or "none" as a range."""
    if text is None or text == "none":
        return _NO_VERSION
    if text.endswith("+"):
        return range(int(text[:-1]), _OPEN)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def parse_definition(text: str) -> Definition:
    """The definition in the text of a message file."""
    message = json.loads(text)
    structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
    return Definition(
        name=message["name"],
        type=message["type"],
        api_key=message.get("apiKey"),
        topic=message.get("topic"),
        layout=message.get("layout", ""),
        versions=parse_versions(message["validVersions"]),
        flexible=parse_versions(message["flexibleVersions"]),
        fields=tuple(_parse_field(field, structs) for field in message["fields"]),
    )


def _parse_field(field: dict[str, Any], structs: dict[str, Any]) -> Field:
    element = field["type"].removeprefix("[]")
    is_array = element != field["type"]
    inner = field.get("fields") or structs.get(element) or ()
    inner_fields = tuple(_parse_field(one, structs) for one in inner)
    if not inner and element not in SCALARS:
        raise ValueError(f"Field {field['name']} has the type {element}: neither one of {SCALARS} nor a struct defined")
    return Field(
        name=field["name"][0].lower() + field["name"][1:],
        element=element,
        is_array=is_array,
        # Kafka's files leave out `versions` if the field is a tag in all of them.
        versions=parse_versions(field.get("versions", field.get("taggedVersions"))),
        nullable=parse_versions(field.get("nullableVersions")),
        tag=field.get("tag"),
        tagged=parse_versions(field.get("taggedVersions")),
        default=_default(field, is_array, inner_fields),
        fields=inner_fields,
    )


def _default(field: dict[str, Any], is_array: bool, inner: tuple[Field, ...]) -> Any:
    """The value of a field that is absent (MessageDataGenerator.fieldDefault, 4.3).

    For a struct without a default, a struct of defaults. Kafka takes ClassicMemberMetadata that way, because its file
    has null without the quotes (T59).
    """
    given = field.get("default")
    if given == "null":
        return None
    if is_array:
        return []
    if inner:
        return {one.name: one.default for one in inner}
    if field["type"] == "uuid":
        return ZERO_UUID
    if field["type"] in ("string", "bytes"):
        return given or ""
    return int(given or 0)


@cache
def definition(name: str) -> Definition:
    """The definition in the file of that name, such as "GroupMetadataValue" or "ShareGroupMetadataValue-4.0"."""
    return parse_definition(package_text(f"messages/definitions/{name}.json"))


@cache
def all_definitions() -> tuple[Definition, ...]:
    """All definitions, in the order of the file names."""
    return tuple(map(definition, names_in_package("messages/definitions", ".json")))
