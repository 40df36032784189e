"""Groups in the wrong offsets partition, and groups that are left over."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.escapes import shell_option, shell_word
from kgroups_spark.findings.evidence import Evidence, Row, listed
from kgroups_spark.findings.finding import Finding, at, tool

# Fewer groups of one pattern are not reported.
MANY_GROUPS = 10

# Generated parts of names: a UUID; the random number of kafka-console-consumer (ConsoleConsumerOptions.java).
GENERATED = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=^console-consumer-)\d{1,5}$", re.IGNORECASE
)
MAYBE_GENERATED = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-|^console-consumer-\d"


def group_in_wrong_partition(evidence: Evidence) -> Iterator[Finding]:
    """Groups with `groups.is_misplaced`: the name hashes to another offsets partition (section 8)."""
    groups = evidence.groups
    misplaced = listed(groups.filter(groups["is_misplaced"]))
    also = pc.is_in(groups["group_id"], pa.array({row["group_id"] for row in misplaced}, pa.string()))
    right = listed(groups.filter(pc.and_(also, pc.invert(groups["is_misplaced"]))))
    homes = {row["group_id"]: row["offsets_partition"] for row in right}
    for row in misplaced:
        group_id, is_read = row["group_id"], row["offsets_partition"] not in evidence.known_until_of
        cause = "most likely the topic's partition count was raised"
        if not is_read:
            cause = "the topic no longer has that partition, or its partition count was raised (it was not read now)"
        yield Finding.of(
            "group_in_wrong_partition",
            row,
            f"{group_id} is in partition {row['offsets_partition']} of __consumer_offsets, but its name hashes to "
            f"another: {cause}. Clients look for its coordinator there, "
            + _what_clients_find(group_id, homes.get(group_id)),
        )


def _what_clients_find(group_id: str, home: int | None) -> str:
    """`home`: the offsets partition to which the name hashes; None: the group is not in it."""
    option = shell_option("--group", group_id)
    if home is not None:
        # An export has the offsets of that partition: importing them would rewind a group that has gone on since.
        return (
            f"where the group is, too (partition {home}), so they fetch those offsets, and none can fetch these. Look "
            f"at both before you reset or delete anything: kgroups describe {option}"
        )
    move = f"--group {shell_word(group_id)} --reset-offsets --from-file offsets.csv --execute"
    return (
        f"so none can fetch these offsets. Move them: kgroups export-offsets {option} --output offsets.csv, then "
        + tool("kafka-consumer-groups", move)
    )


def idle_share_group(evidence: Evidence) -> Iterator[Finding]:
    """A share group that has been Empty for longer than the retention: any other group would have expired (T55)."""
    groups = evidence.groups
    idle = (pc.field("group_type") == "share") & (pc.field("state") == "Empty")
    idle &= pc.field("state_since") <= evidence.before_until(evidence.retention_ms)
    for row in listed(evidence.known(groups.filter(idle), "state_since", evidence.retention_ms)):
        yield Finding.of(
            "idle_share_group",
            row,
            f"Share group {row['group_id']} has had no member since {at(row['state_since'])}, longer than the "
            f"retention of {format_duration(evidence.retention_ms)} after which other groups expire. Share "
            "groups never expire. If it is no longer needed: "
            + tool("kafka-share-groups", f"--delete --group {shell_word(row['group_id'])}"),
            since=row["state_since"],
        )


def throwaway_group(evidence: Evidence) -> Iterator[Finding]:
    """At least MANY_GROUPS groups without members whose names differ only in a UUID or a console consumer's number."""
    groups = evidence.groups
    empty = groups.filter(pc.field("member_count") == 0)
    likely = empty.filter(pc.match_substring_regex(empty["group_id"], MAYBE_GENERATED))
    by_pattern: dict[str, list[Row]] = {}
    for row in listed(likely.select(["offsets_partition", "group_id", "state_since", "log_offset"])):
        pattern, replaced = GENERATED.subn("*", row["group_id"])
        if replaced:
            by_pattern.setdefault(pattern, []).append(row)
    for pattern, rows in sorted(by_pattern.items()):
        if len(rows) >= MANY_GROUPS:
            first = min(rows, key=lambda row: row["group_id"])
            yield Finding(
                "throwaway_group",
                f"{counted(len(rows), 'group')} without members are named {pattern}: each run creates a new one. They "
                "burden their coordinators and the log until their offsets expire, and no run finds the offsets of "
                "the previous one. Give the application a fixed group.id, or let it commit nothing "
                "(enable.auto.commit=false)",
                group_id=first["group_id"],
            )
