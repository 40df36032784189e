"""how another Kafka release would load the same log: can I upgrade, can I go back?

Replays the whole history of a lake, or the segments you name, by the rules of two Kafka releases, and prints the
differences: committed and pending offsets, groups, states, members, what expires, and where a release would not load a
partition of __consumer_offsets at all. The answer is what the release's coordinator holds after it has loaded that log.
The screen lists the differences by their causes, without those that only follow from others. Needs Spark, which takes
about a minute. Changes nothing in the lake.

examples:
  kgroups compare --lake ./lake --release-version 3.9      what would break if we downgraded to 3.9?
  kgroups compare --lake ./lake --release-version 3.9 --release-version 4.3     what would an upgrade change?
  kgroups compare --segments /var/lib/kafka --release-version 4.3 --release-version 4.0
                                                           a broker's log as it is now, without a lake
  kgroups compare --lake ./lake --release-version 4.0 --group orders --format json
  kgroups compare --lake ./lake --release-version 4.2 --fail-if-any             exit 4 if something differs

3.7, 3.8 and 3.9 mean the Scala coordinator, which these releases start with; 3.9-java means the Java one. 4.0 means its
last patch release: name an earlier patch release if it has its own rules (4.0.0, 4.1.1)."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgroups_spark.audit.differences import Difference
from kgroups_spark.cli.form import (
    FORMAT,
    LAKE,
    WIDE,
    WRITER,
    Option,
    fail_if_any,
    positive_duration_value,
    release_value,
    screen,
    text_value,
    write,
)
from kgroups_spark.cli.open_lake import existing_lake, start_engine
from kgroups_spark.cli.output import Column, say_lines, work_reported
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.words import (
    counted,
    did_you_mean,
    first_of,
    format_duration,
    format_utc,
    named_partitions,
    quoted,
    shell_word,
    to_datetime,
    to_epoch_ms,
)

if TYPE_CHECKING:
    from kgroups_spark.audit.comparison import Comparison
    from kgroups_spark.audit.differences import Difference


COLUMNS = (
    *("difference", "offsets_partition", "group_id", "member_id", "producer_id", "topic", "partition", "what"),
    *("value_a", "value_b", "why", "follows_from"),
)
SCREEN = (
    "difference* offsets_partition* group_id=GROUP member_id=MEMBER producer_id* topic partition what "
    "value_a~ value_b~ why~ follows_from"
)


OPTIONS = (
    LAKE,
    Option(
        "--segments DIR ...",
        "these segments instead of a lake: a folder with __consumer_offsets-<p> folders in it; may be repeated",
        default=[],
    ),
    Option(
        "--release-version V ...",
        "a Kafka release, as in 4.3, 3.9 or 4.0.0; give two to compare them, or one to compare it with the last "
        "audit's (with --segments: with the newest)",
        release_value,
        [],
    ),
    Option(
        "--retention D",
        "offsets.retention.minutes of both (default: the audit's where it is not its release's default, else each "
        "release's default)",
        positive_duration_value,
    ),
    Option("--group G ...", "only this group; may be repeated", text_value, []),
    Option(
        "--all",
        "one table of all differences, including those that only follow from others (JSON and CSV have all of them)",
    ),
    Option("--fail-if-any", "exit 4 if something differs, for alerting"),
    FORMAT,
    WIDE,
    WRITER,
)


def run(arguments: argparse.Namespace) -> int:
    """Prints the differences; summary and counts go to stderr. Returns the exit code."""
    if not 1 <= len(arguments.release_version) <= 2:
        raise UsageError("name one release or two: --release-version 4.3 --release-version 3.9")
    segments = arguments.segments
    found = _compare_segments(arguments) if segments else _compare(arguments, existing_lake(arguments))
    _require_groups(arguments.group, found)
    say_lines(summary_lines(found))
    rows = [each._asdict() for each in found.differences]
    if arguments.format == "table":
        causes = rows if arguments.all else [row for row in rows if row["follows_from"] is None]
        rows = sorted(causes, key=lambda row: row["why"] or "")
    write(rows, COLUMNS, screen_of(found, rows), arguments)
    if hidden := len(found.differences) - len(rows):
        say_lines([f"{counted(hidden, 'difference')} more {'follows' if hidden == 1 else 'follow'} from these (--all)"])
    say_lines(count_lines(found))
    return fail_if_any(arguments, found.differences)


def screen_of(found: Comparison, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """The columns with a value in any row. The values are below the names of the releases."""
    releases = {"value_a": found.a.release_version, "value_b": found.b.release_version}
    shown = (each._replace(heading=releases.get(each.name, each.heading)) for each in screen(SCREEN))
    return [each for each in shown if each.name in releases or any(row[each.name] is not None for row in rows)]


def _compare_segments(arguments: argparse.Namespace) -> Comparison:
    """The comparison of segments, which are read into a temporary lake."""
    from kgroups_spark.cli import audit

    if getattr(arguments, "lake", None):
        raise UsageError("--segments and --lake are two sources: give one of them")
    options = audit.default_options()
    with tempfile.TemporaryDirectory(prefix="kgroups-compare-") as folder:
        options.lake, options.segments, options.command = f"{folder}/lake", arguments.segments, "compare"
        options.engine = arguments.engine
        if len(arguments.release_version) == 2:
            options.release_version = arguments.release_version[0]
        audit.check_sources(options)
        audit.audit(options, options.lake, options.segments)
        return _compare(arguments, options.lake)


def _compare(arguments: argparse.Namespace, location: str) -> Comparison:
    engine = start_engine(arguments.engine, "compare", location)
    from kgroups_spark.audit.comparison import Side, compare
    from kgroups_spark.coordinator.releases import expiry_rules
    from kgroups_spark.lake.lake import Lake
    from kgroups_spark.lake.ledger import Ledger

    lake = Lake.open(engine, location)
    last = Ledger(lake).last_finished()
    if last is None or last.as_of is None or last.release_version is None or last.retention_ms is None:
        raise KgroupsError(f"the lake at {location} has no finished audit: run kgroups audit first")
    named = arguments.release_version
    versions = named if len(named) == 2 else [last.release_version, *named]
    # A retention that was set stays; a release's default changes with the release.
    is_set = last.retention_ms != expiry_rules(last.release_version).default_retention_ms
    retention_ms = arguments.retention or (last.retention_ms if is_set else None)
    a, b = (Side(version, retention_ms or expiry_rules(version).default_retention_ms) for version in versions)
    with work_reported("the comparison failed") as progress:
        return compare(lake, a, b, to_epoch_ms(last.as_of), groups=arguments.group, progress=progress)


def _require_groups(groups: Sequence[str], found: Comparison) -> None:
    known = found.facts[0].names | found.facts[1].names
    for group in groups:
        if group not in known:
            nearest = did_you_mean(group, known, shell_word)
            raise KgroupsError(f"no group {quoted(group)} in this history by the rules of either release{nearest}")


def summary_lines(found: Comparison) -> Iterator[str]:
    """Lines for people, before the rows: the releases, and the records that one of them cannot load, skips or loses."""
    a, b = found.a.release_version, found.b.release_version
    retention = dict.fromkeys(format_duration(side.retention_ms) for side in (found.a, found.b))
    yield (
        f"{a} and {b} over the log of {counted(found.partitions, 'offsets partition')} up to "
        f"{format_utc(to_datetime(found.as_of_ms))}, retention {' and '.join(retention)}"
    )
    if found.is_reduced:
        yield "maintain --keep has reduced history: both releases load it as a compacted log"
    for side, (name, facts) in enumerate(zip((a, b), found.facts, strict=True)):
        yield from _load_lines(name, facts, found, side)


def _load_lines(name: str, facts: Any, found: Comparison, side: int) -> Iterator[str]:
    from kgroups_spark.coordinator.releases import release
    from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS

    if facts.failing:
        is_scala = release(name).coordinator == "scala"
        serves = "answer that there is no such group and no offset" if is_scala else "answer NOT_COORDINATOR"
        failing = named_partitions(sorted(facts.failing))
        yield (
            f"{name} could not load {failing}: {counted(facts.unserved_groups, 'group')} "
            f"with {counted(facts.unserved_offsets, 'committed offset')} in {_them(facts.failing)}; brokers {serves}"
        )
        number, detail = min(facts.failing.items())
        yield f"  the first: partition {number}, {detail}"
        if facts.compacted_perhaps:
            yield (
                f"  in {named_partitions(sorted(facts.compacted_perhaps))} Kafka's "
                "cleaner may have removed those records by now: compare --segments of a broker's log to see"
            )
    if facts.skipped:
        kinds = Counter[str]()
        for kind, count in facts.skipped.items():
            kinds[CONSUMER_OFFSETS[kind].name.partition("Group")[0].lower() or "classic"] += count
        reported = ", ".join(f"{count:,} of {kind} groups" for kind, count in sorted(kinds.items()))
        yield f"{name} skips records of types that it does not know (KIP-915): {reported}"
    other = found.facts[1 - side]
    if other.topic_ids and not facts.topic_ids:
        yield f"{name} keeps no topic ids: {counted(other.topic_ids, 'committed offset')} lose theirs (KAFKA-19141)"


def _them(numbers: Any) -> str:
    return "it" if len(numbers) == 1 else "them"


def count_lines(found: Comparison) -> Iterator[str]:
    """Lines for people, after the rows: the numbers of groups and offsets that differ."""
    from kgroups_spark.audit.differences import is_unserved

    b = found.b.release_version
    served = [each for each in found.differences if each.what != "load" and not is_unserved(each)]
    groups = [each for each in served if each.difference == "group"]
    lines = [
        (_groups_of(each for each in groups if each.what == "group" and each.value_b is None), f"would be gone in {b}"),
        (_groups_of(each for each in groups if each.what == "group" and each.value_a is None), f"would be new in {b}"),
        (_groups_of(each for each in groups if each.what == "group_type"), f"would be of another type in {b}"),
        (_groups_of(each for each in groups if each.what not in ("group", "group_type")), "would differ in other ways"),
        (_groups_of(each for each in served if each.difference == "member"), "would have other members"),
    ]
    for names, what in lines:
        if names:
            yield f"{counted(len(names), 'group')} {what}: {first_of(names, 5)}"
    for kind, thing, what in (
        ("committed_offset", "committed offset", "would differ"),
        ("pending_offset", "offset", "of open transactions would differ"),
        ("offset_expiry", "committed offset", f"would expire at another time in {b}"),
        ("group_expiry", "group", f"would be deleted at another time in {b}"),
    ):
        places = {
            (e.offsets_partition, e.group_id, e.topic, e.partition, e.producer_id): e
            for e in served
            if e.difference == kind
        }
        if places:
            at_once = sum((each.value_b or "").startswith(("expire ", "delete ")) for each in places.values())
            now = f", {at_once} of them at the next check" if at_once else ""
            yield f"{counted(len(places), thing)} {what}{now}"
    neither = found.facts[0].failing.keys() & found.facts[1].failing.keys()
    if neither:
        yield f"{named_partitions(sorted(neither))} cannot be compared: neither release could load {_them(neither)}"
    if not found.differences and (not neither or len(neither) < found.partitions):
        yield "nothing differs in the others" if neither else "nothing differs"


def _groups_of(differences: Iterator[Difference]) -> list[str]:
    return sorted({each.group_id for each in differences if each.group_id is not None})
