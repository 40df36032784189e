"""Record types of the coordinators' topics: name, key, and the layouts of the value, all from the definitions."""

from __future__ import annotations

from dataclasses import dataclass

from kgroups_spark.messages.definition import Definition, all_definitions

OFFSET_COMMIT_TYPES = (0, 1)


@dataclass(frozen=True)
class RecordType:
    number: int
    name: str  # as in Kafka's message files, without Key or Value: "GroupMetadata"
    key: Definition
    layouts: tuple[Definition, ...]  # of the value: the released one first, then early-access ones (T58)


def record_types(topic: str) -> dict[int, RecordType]:
    """The record types of a topic by number. Types 18 and 24 were in no release: they are missing, so unknown."""
    messages = [m for m in all_definitions() if m.topic == topic]
    keys = {m.api_key: m for m in messages if m.type == "coordinator-key" and m.api_key is not None}
    return {number: _record_type(number, key, messages) for number, key in sorted(keys.items())}


def _record_type(number: int, key: Definition, messages: list[Definition]) -> RecordType:
    values = [m for m in messages if m.type == "coordinator-value" and m.api_key == number]
    layouts = tuple(sorted(values, key=lambda m: m.layout))
    return RecordType(number, key.name.removesuffix("Key"), key, layouts)


CONSUMER_OFFSETS = record_types("__consumer_offsets")
SHARE_GROUP_STATE = record_types("__share_group_state")
TRANSACTION_STATE = record_types("__transaction_state")
