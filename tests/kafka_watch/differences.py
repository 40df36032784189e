"""Differences between the message definitions of a Kafka release and ours, as sentences.

Two definitions are compared version by version, because a version is what a reader reads: the fields in their order,
their types, nullability and tags. Defaults are compared once, for they are where a version has no such field. Tags
that only we know are no difference: a record without them reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kgroups_spark.messages.schema import Definition, Field


@dataclass(frozen=True)
class Difference:
    """`subject`: a topic's record type, or a setting. `text`: what Kafka has and we have not, or have otherwise."""

    subject: str
    text: str


def definition_differences(published: Iterable[Definition], ours: Iterable[Definition]) -> list[Difference]:
    """Differences in all messages that Kafka has. Early-access layouts, which only we have, are left out."""
    released = [each for each in ours if not each.layout]
    known = {key: each for each in released for key in (each.name, _identity(each))}
    found: list[Difference] = []
    for theirs in published:
        mine = known.get(_identity(theirs))
        if mine is None:
            found.append(Difference(_subject(theirs), "is not decoded"))
        else:
            found += [Difference(_subject(theirs), text) for text in _message_differences(theirs, mine)]
    return found


def _identity(message: Definition) -> str | tuple[str | None, str, int]:
    """Records are known by their numbers; messages inside them, and records before 4.1, by their names."""
    return message.name if message.api_key is None else (message.topic, message.type, message.api_key)


def _subject(message: Definition) -> str:
    if message.api_key is None:
        return message.name
    return f"{message.topic}, record type {message.api_key}, {message.name}"


def _message_differences(theirs: Definition, mine: Definition) -> Iterator[str]:
    if theirs.name != mine.name:
        yield f"is called {mine.name} by us"
    by_text: dict[str, list[int]] = {}
    for version in theirs.versions:
        for text in _version_differences(theirs, mine, version):
            by_text.setdefault(text, []).append(version)
    for text, versions in by_text.items():
        yield f"version {_numbers(versions)}: {text}"
    yield from _default_differences(theirs.fields, mine.fields)


def _version_differences(theirs: Definition, mine: Definition, version: int) -> Iterator[str]:
    if version not in mine.versions:
        yield "is not decoded"
        return
    if (version in theirs.flexible) != (version in mine.flexible):
        yield f"is {'' if version in theirs.flexible else 'not '}flexible"
    yield from _field_differences(theirs.fields, mine.fields, version)


def _field_differences(
    theirs: tuple[Field, ...], mine: tuple[Field, ...], version: int, path: str = ""
) -> Iterator[str]:
    there, here = _fields_of(theirs, version), _fields_of(mine, version)
    for name, field in there.items():
        if name not in here:
            yield f"{path}{name}, {_form(field, version)}, is not decoded"
            continue
        if _form(field, version) != _form(here[name], version):
            yield f"{path}{name} is {_form(field, version)}; we read {_form(here[name], version)}"
        yield from _field_differences(field.fields, here[name].fields, version, f"{path}{name}.")
    for name in here.keys() - there.keys():
        if version not in here[name].tagged:
            yield f"{path}{name}, which we read, is not there"
    common = [name for name in there if name in here and version not in there[name].tagged]
    if common != [name for name in here if name in common]:
        yield f"the order of fields is {', '.join(path + name for name in common)}"


def _fields_of(fields: tuple[Field, ...], version: int) -> dict[str, Field]:
    return {field.name: field for field in fields if version in field.versions}


def _form(field: Field, version: int) -> str:
    """Worked example: `array of struct, nullable, tag 1`."""
    element = "struct" if field.fields else field.element
    words = [f"array of {element}" if field.is_array else element]
    words += ["nullable"] if version in field.nullable else []
    words += [f"tag {field.tag}"] if version in field.tagged else []
    return ", ".join(words)


def _default_differences(theirs: tuple[Field, ...], mine: tuple[Field, ...], path: str = "") -> Iterator[str]:
    """Fields whose defaults differ. Structs are compared field by field, and as a whole only where one is null.

    If a record leaves out an array, ours is null, and that of Kafka's classes is empty because their files say null
    without quotes (T59): `assignmentEpochs`, `lastAssignmentConfigs`. The state machine treats both alike, and rows in
    lakes say null, so this is no difference.
    """
    here = {field.name: field for field in mine}
    for field in theirs:
        own = here.get(field.name)
        if own is None:
            continue
        is_alike = field.default == own.default or (field.is_array and not (field.default or own.default))
        if not is_alike and (field.is_array or not field.fields or None in (field.default, own.default)):
            yield f"the default of {path}{field.name} is {field.default!r}; ours is {own.default!r}"
        yield from _default_differences(field.fields, own.fields, f"{path}{field.name}.")


def _numbers(versions: list[int]) -> str:
    """[0, 1, 2, 4] as `0-2, 4`."""
    spans: list[list[int]] = []
    for version in versions:
        if spans and spans[-1][1] == version - 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
