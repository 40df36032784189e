"""Records at which a coordinator's load fails, or soon will."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.counts import counted, sized
from kgroups_spark.findings.evidence import Condition, Evidence, Row, listed, moment
from kgroups_spark.findings.finding import Finding
from kgroups_spark.tables.schemas import GROUP

# message.max.bytes, the default for a whole batch (ServerLogConfigs.MAX_MESSAGE_SIZE_DEFAULT, 1 MiB and its overhead).
MAX_MESSAGE_BYTES = 1_048_588
# Four fifths of it, which a few more members or topics exceed.
NEAR_LIMIT_BYTES = MAX_MESSAGE_BYTES * 4 // 5


def load_would_fail(evidence: Evidence) -> Iterator[Finding]:
    """By offsets partition, the first record in quarantine at which a coordinator's load fails, if the log still begins
    at or before it."""
    columns = ["offsets_partition", "log_offset", "log_timestamp", "group_id", "topic", "partition", "producer_id"]
    rows = evidence.tables.rows(
        "quarantine", [*columns, "reason", "detail", "resolved_by"], Condition("coordinator_fails", "==", True)
    )
    by_partition: dict[int, list[Row]] = {}
    for row in listed(rows.filter(pc.is_null(rows["resolved_by"]))):
        if row["log_offset"] >= evidence.log_starts.get(row["offsets_partition"], 0):
            by_partition.setdefault(row["offsets_partition"], []).append(row)
    for number, found in by_partition.items():
        # A record can have two rows, from its decoding and its replay, in any order.
        first = min(found, key=lambda row: (row["log_offset"], row["reason"], row["detail"]))
        others = len({row["log_offset"] for row in found}) - 1
        more = f" {counted(others, 'other')} like it: table quarantine." if others else ""
        yield Finding.of(
            "load_would_fail",
            first,
            f"A coordinator of the chosen release would stop loading partition {number} of __consumer_offsets at "
            f"offset {first['log_offset']} ({first['reason']}: {first['detail']}).{more} All groups of the partition "
            "then have no coordinator and cannot commit or fetch offsets. They work as long as the current leader "
            "keeps what it has loaded. Before a restart or an upgrade, keep a copy (kgroups export-offsets "
            "--all-groups) and check whether the record is still in the log",
            since=first["log_timestamp"],
        )


def group_record_near_limit(evidence: Evidence) -> Iterator[Finding]:
    """By group, the largest record of at least NEAR_LIMIT_BYTES that is the newest about the group or one of its
    members. Earlier findings remain as long as that is true."""
    reported = {
        (row["offsets_partition"], row["log_offset"]): row for row in evidence.found_before("group_record_near_limit")
    }
    large = {(each.offsets_partition, each.log_offset): each for each in evidence.large_records}
    if not reported and not large:
        return
    newest = {(row["offsets_partition"], row["log_offset"]) for row in _newest(evidence, [*reported, *large])}
    by_group: dict[tuple[int, str], list[Finding]] = {}
    for place in sorted(newest):
        finding = _again(reported[place]) if place not in large else _large(evidence, place)
        by_group.setdefault((place[0], finding.group_id or ""), []).append(finding)
    for findings in by_group.values():
        yield findings[-1]


def _newest(evidence: Evidence, places: list[tuple[int, int]]) -> list[Row]:
    """Rows of those places (partition, log offset) that hold the newest record about a group or a member."""
    columns = [*GROUP, "log_offset"]
    rows = pa.concat_tables([evidence.groups.select(columns), evidence.members.select(columns)])
    near = rows.filter(pc.is_in(rows["log_offset"], pa.array(sorted({offset for _, offset in places}), pa.int64())))
    wanted = set(places)
    return [row for row in listed(near) if (row["offsets_partition"], row["log_offset"]) in wanted]


def _large(evidence: Evidence, place: tuple[int, int]) -> Finding:
    each = next(r for r in evidence.large_records if (r.offsets_partition, r.log_offset) == place)
    return Finding.of(
        "group_record_near_limit",
        each._asdict(),
        f"The {each.record_name} record of {each.group_id} has {sized(each.size_bytes)}; with its default, "
        f"message.max.bytes, a broker takes batches of {sized(MAX_MESSAGE_BYTES)}. If it grows beyond that, every "
        "rebalance of the group fails for all members, with only an unknown server error. Use fewer members or "
        "topics, an assignor with less user data, or raise max.message.bytes of __consumer_offsets",
        since=moment(each.log_timestamp),
    )


def _again(row: Row) -> Finding:
    return Finding(**{name: row[name] for name in Finding._fields})
