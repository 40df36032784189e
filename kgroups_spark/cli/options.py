"""Options that several commands share, and the readers of their values: wrong values fail before any work starts."""

from __future__ import annotations

import argparse
import os
import re
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kgroups_spark.coordinator import releases
from kgroups_spark.errors import UsageError
from kgroups_spark.sql.reader import TopicPartitions
from kgroups_spark.words import FromAsOf, as_typed, parse_duration, parse_moment, suggested

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Prose is filled to the width of the screen. Indented lines, as examples, stay as they are: they can be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        written, lines = text.splitlines(), list[str]()
        if all(len(line) <= width for line in written):
            return super()._fill_text(text, width, indent)
        for is_prose, some in groupby(written, lambda line: not line.startswith(" ") and bool(line)):
            part = list(some)
            lines += self._split_lines(" ".join(part), width) if is_prose else part
        return "\n".join(indent + line for line in lines)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """argparse's own method would break `share-state` at its hyphen."""
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


T = TypeVar("T")
Options = TypeVar("Options", bound="DataclassInstance")

ENGINES = ("auto", "duckdb", "spark")
# Those that write a lake, or replay its history.
WRITERS = ("spark", "local")
GROUP_TYPES = ("classic", "consumer", "share", "streams")
GROUP_TYPE_ALIASES = {"generic": "classic"}  # the early name in KIP-848
_STATES = "Empty PreparingRebalance CompletingRebalance Stable Assigning Reconciling NotReady Dead"
GROUP_STATES = tuple(_STATES.split())


class OptionParser(argparse.ArgumentParser):
    """argparse that raises UsageError, knows no abbreviated options, names the nearest command, and takes no empty
    path."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", HelpFormatter)
        kwargs.setdefault("allow_abbrev", False)  # an abbreviation may become ambiguous with the next new option
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.register("type", None, path_value)
        # argparse takes -1 for a value and -1h for an option, after which it misses the value.
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Checks a command name: only these have choices. argparse's own text lists all of them and suggests none."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(None, f"unknown command {value}{suggested(str(value), known)}")

    def option_strings(self) -> list[str]:
        """Every option that this parser knows and shows."""
        shown = (action for action in self._actions if action.help is not argparse.SUPPRESS)
        return [option for action in shown for option in action.option_strings if option.startswith("-")]


def option_value(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A reader whose ValueError argparse shows unchanged."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


moment_value = option_value(parse_moment)
duration_value = option_value(parse_duration)


@option_value
def time_value(text: str) -> int:
    """A time, where no audit of a lake counts: a relative one is from now."""
    moment = parse_moment(text)
    return int(time.time() * 1000) + moment if isinstance(moment, FromAsOf) else moment


@option_value
def positive_duration_value(text: str) -> int:
    if (duration_ms := parse_duration(text)) == 0:
        raise ValueError("must be longer than 0")
    return duration_ms


@option_value
def text_value(text: str) -> str:
    """A name or a query. Python has bytes of a command line that are no UTF-8 as characters that no engine takes."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError(f"{text!r} is not UTF-8 text")
    return text


def group_value(text: str) -> str:
    """A name from the log, as it is or as it is shown."""
    return as_typed(text_value(text))


@option_value
def path_value(text: str) -> str:
    """A path, an address or a title: the text of an option that has no other reader."""
    if not text.strip():
        raise ValueError("the value is empty")
    return text


@option_value
def release_value(text: str) -> str:
    """A Kafka release whose rules are known, as typed."""
    releases.release(text)
    return text


@option_value
def partition_values(text: str) -> list[int]:
    """Partition numbers with commas between them."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise ValueError(f"invalid partition {text!r}: use 17 or 3,17")
    return [int(word) for word in words]


def _count_value(what: str, most: int, note: str = "") -> Callable[[str], int]:
    """A reader of a whole number, at least 1."""

    @option_value
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= most):
            raise ValueError(f"invalid {what} {text!r}: expected 1 to {most}{note}")
        return int(text)

    return read


partition_count_value = _count_value("number of partitions", 999_999, " (Kafka's default is 50)")
delivery_count_value = _count_value("number of deliveries", 32_767)
positive_count_value = _count_value("number", 999_999_999_999)


@option_value
def byte_count_value(text: str) -> int:
    """A number of bytes, at least 1: plain, or with the suffix k, m or g (powers of ten)."""
    match = re.fullmatch(r"([0-9]{1,15})([kmg]?)b?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"invalid number of bytes {text!r}: use 5000000, 5000k or 5m, which are the same")
    return int(match[1]) * {"": 1, "k": 1000, "m": 1_000_000, "g": 1_000_000_000}[match[2]]


def names_value(known: Sequence[str], aliases: Mapping[str, str] | None = None) -> Callable[[str], list[str]]:
    """A reader of names with commas between them, ignoring case, in the spelling of `known`."""
    read = option_value(lambda text: [_known_name(word.strip(), known, aliases or {}) for word in text.split(",")])
    return _completed_by(read, known)


def name_value(known: Sequence[str]) -> Callable[[str], str]:
    """A reader of one name, ignoring case, in the spelling of `known`."""
    return _completed_by(option_value(lambda text: _known_name(text.strip(), known, {})), known)


def _completed_by(read: Callable[[str], T], known: Sequence[str]) -> Callable[[str], T]:
    """The reader, with the names that a shell can complete (completion.py)."""
    read.known = known  # type: ignore[attr-defined]
    return read


def _known_name(word: str, known: Sequence[str], aliases: Mapping[str, str]) -> str:
    spelling = {name.lower(): name for name in known} | dict(aliases)
    name = spelling.get(word.lower())
    if name is None:
        raise ValueError(f"{word!r} is unknown{suggested(word, known, aliases)}")
    return name


def fail_if_any(arguments: argparse.Namespace, found: object) -> int:
    """The exit code of a command that has `--fail-if-any`; `found`: false if there is nothing to report."""
    return 4 if arguments.fail_if_any and found else 0


def options_of(kind: type[Options], arguments: argparse.Namespace, **others: Any) -> Options:
    """A command's options as a dataclass: each field from the option of that name (`retention_ms`: --retention), except
    those in `others`."""
    names = (field.name for field in fields(kind))
    return kind(
        **{name: getattr(arguments, name.removesuffix("_ms")) for name in names if name not in others}, **others
    )


def lake_location(arguments: argparse.Namespace, default: str | None = None) -> str:
    """The value of --lake or $KGROUPS_LAKE. Raises UsageError if both are missing and there is no default."""
    location = getattr(arguments, "lake", None) or os.environ.get("KGROUPS_LAKE") or default
    if not location:
        raise UsageError("no lake given: --lake DIR, or KGROUPS_LAKE in the environment")
    return str(location)


def topic_partitions_value(text: str) -> TopicPartitions:
    """`orders`, `orders:3` or `orders:0,1`. Raises argparse.ArgumentTypeError."""
    topic, colon, numbers = text.partition(":")
    name = group_value(topic)
    if topic or not text:
        with suppress(argparse.ArgumentTypeError):
            return TopicPartitions(name, tuple(partition_values(numbers)) if colon else ())
    raise argparse.ArgumentTypeError(f"{text!r} is no topic (orders) or partitions of one (orders:0,1)")


def asked_groups(arguments: argparse.Namespace) -> list[str] | None:
    """The named groups, each once; None: all. Raises UsageError."""
    groups = list(dict.fromkeys(arguments.group))
    if groups and arguments.all_groups:
        raise UsageError("--group and --all-groups are two choices: give one of them")
    if not groups and not arguments.all_groups:
        raise UsageError("no group given: --group G, or --all-groups (kgroups groups lists them)")
    return None if arguments.all_groups else groups
