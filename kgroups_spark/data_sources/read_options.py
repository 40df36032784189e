"""Parsing of the data sources' options, which are named as in Spark's Kafka source."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from kgroups_spark.errors import UsageError
from kgroups_spark.nearest import did_you_mean

EARLIEST, LATEST = -2, -1  # in JSON offsets


class BadOption(UsageError):
    """An unknown option, or an impossible value."""


def require_known(source: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises BadOption for an unknown name; case does not matter."""
    names = {name.lower(): name for name in known}
    if unknown := sorted(name for name in given if name.lower() not in names):
        nearest = did_you_mean(unknown[0], list(names.values())) or f"; use {', '.join(names.values())}"
        raise BadOption(f"{source} has no option {', '.join(unknown)}{nearest}")


def topics_of(subscribe: str) -> tuple[str, ...]:
    """Topics, separated by commas, each once."""
    return tuple(dict.fromkeys(topic.strip() for topic in subscribe.split(",") if topic.strip()))


def require_sound(
    topics: Sequence[str], starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> None:
    """Raises BadOption if there is no topic, if offsets are given for another one, or if a partition's start is after
    its end."""
    if not topics:
        raise BadOption("subscribe names no topic")
    for (topic, partition), start in starts.items():
        if start > (end := ends.get((topic, partition), start)):
            raise BadOption(f"startingOffsets of {topic}-{partition} is {start}, after endingOffsets, which is {end}")
    if others := sorted({topic for topic, _ in (*starts, *ends)} - set(topics)):
        raise BadOption(
            f"offsets are given for {others[0]}, which subscribe does not name{did_you_mean(others[0], topics)}"
        )


def require_partitions(
    topic: str, there: Collection[int], starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> None:
    """Raises BadOption if offsets are given for a partition of the topic that does not exist."""
    for name, offsets in (("startingOffsets", starts), ("endingOffsets", ends)):
        if missing := sorted(p for t, p in offsets if t == topic and p not in there):
            raise BadOption(f"{name} names partition {missing[0]} of {topic}, which has {len(there)}")


def starting_offsets(text: str) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition, without `earliest` ones."""
    return _offsets("startingOffsets", text, "earliest", EARLIEST)


def ending_offsets(text: str) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition, without `latest` ones."""
    return _offsets("endingOffsets", text, "latest", LATEST)


def _offsets(name: str, text: str, word: str, number: int) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition, without those equal to `word` or `number`."""
    if text == word:
        return {}
    try:
        by_topic = json.loads(text)
        offsets = {(topic, int(p)): int(o) for topic, by_partition in by_topic.items() for p, o in by_partition.items()}
    except (ValueError, TypeError, AttributeError) as err:
        raise BadOption(f'{name} is "{word}" or JSON like {{"topic": {{"0": 23}}}}, not {text!r}') from err
    if wrong := [offset for offset in offsets.values() if offset < 0 and offset != number]:
        raise BadOption(f"{name} has the offset {wrong[0]}; 0 or more, or {number} for {word}, is meant")
    return {place: offset for place, offset in offsets.items() if offset != number}


def number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise BadOption(f"{name} is a number, not {text!r}")
    return int(text)


def truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadOption(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"
