"""Parsing of the data sources' options, which are named as in Spark's Kafka source."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kgroups_spark.errors import UsageError
from kgroups_spark.nearest import did_you_mean, suggested
from kgroups_spark.sources.segment_file import LARGEST_OFFSET
from kgroups_spark.sources.segments import OFFSETS_TOPIC

EARLIEST, LATEST = -2, -1  # in JSON offsets
OFFSETS = ("startingOffsets", "endingOffsets")
MOST_DIGITS = 18
SHARED = ("subscribe", *OFFSETS, "minPartitions", "failOnDataLoss")


class BadOption(UsageError):
    """An unknown option, or an impossible value."""


@dataclass(frozen=True)
class ReadOptions:
    """The parsed options that both sources have. Offsets are by topic and partition; an absent one is an end of the
    log."""

    topics: tuple[str, ...]
    starting_offsets: Mapping[tuple[str, int], int]
    ending_offsets: Mapping[tuple[str, int], int]
    min_partitions: int
    fail_on_data_loss: bool

    def require_partitions(self, topic: str, there: Collection[int]) -> None:
        """Raises BadOption if offsets are given for a partition of the topic that does not exist."""
        for name, offsets in zip(OFFSETS, (self.starting_offsets, self.ending_offsets), strict=True):
            if missing := sorted(p for t, p in offsets if t == topic and p not in there):
                raise BadOption(f"{name} names partition {missing[0]} of {topic}, which has {len(there)}")


def shared_options(given: Mapping[str, str]) -> dict[str, Any]:
    """The fields of ReadOptions, from options whose names are in lower case. Raises BadOption for impossible values,
    for no topic, for offsets of a topic that is not read, and for a partition whose start is after its end."""
    subscribe = given.get("subscribe", OFFSETS_TOPIC)
    topics = tuple(dict.fromkeys(topic.strip() for topic in subscribe.split(",") if topic.strip()))
    starts = _offsets("startingOffsets", given.get("startingoffsets", "earliest"), "earliest", EARLIEST)
    ends = _offsets("endingOffsets", given.get("endingoffsets", "latest"), "latest", LATEST)
    if not topics:
        raise BadOption("subscribe names no topic")
    for (topic, partition), start in starts.items():
        if start > (end := ends.get((topic, partition), start)):
            raise BadOption(f"startingOffsets of {topic}-{partition} is {start}, after endingOffsets, which is {end}")
    if others := sorted({topic for topic, _ in (*starts, *ends)} - set(topics)):
        raise BadOption(
            f"offsets are given for {others[0]}, which subscribe does not name{did_you_mean(others[0], topics)}"
        )
    return {
        "topics": topics,
        "starting_offsets": starts,
        "ending_offsets": ends,
        "min_partitions": number("minPartitions", given.get("minpartitions", "0")),
        "fail_on_data_loss": _truth("failOnDataLoss", given.get("failondataloss", "true")),
    }


def require_known(source: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises BadOption for an unknown name; case does not matter."""
    names = {name.lower(): name for name in known}
    if unknown := sorted(name for name in given if name.lower() not in names):
        raise BadOption(f"{source} has no option {', '.join(unknown)}{suggested(unknown[0], list(names.values()))}")


def _offsets(name: str, text: str, word: str, number: int) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition, without those equal to `word` or `number`."""
    if text == word:
        return {}
    try:
        by_topic = json.loads(text)
        offsets = {(topic, int(p)): o for topic, by_partition in by_topic.items() for p, o in by_partition.items()}
        if not all(type(offset) is int for offset in offsets.values()):
            raise TypeError("an offset is no number, or has a fraction")
    except (ValueError, TypeError, AttributeError, RecursionError) as err:
        raise BadOption(f'{name} is "{word}" or JSON like {{"topic": {{"0": 23}}}}, not {short(text)}') from err
    if wrong := [o for o in offsets.values() if not 0 <= o <= LARGEST_OFFSET and o != number]:
        raise BadOption(f"{name} has the offset {wrong[0]}; 0 or more, or {number} for {word}, is meant")
    return {place: offset for place, offset in offsets.items() if offset != number}


def number(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise BadOption(f"{name} is a number, not {short(text)}")
    return int(text)


def short(text: str) -> str:
    """The value of an option for a message."""
    return repr(text if len(text) <= 100 else f"{text[:100]}...")


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadOption(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"
