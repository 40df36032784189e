"""Partitions that are read again from their start: what the replay needs to know of them, and what the ledger says."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import functions as F

from kgroups_spark.audit.decode_range import RangeProgress
from kgroups_spark.audit.plan import AuditPlan
from kgroups_spark.audit.replay import ReadAgain
from kgroups_spark.counts import counted
from kgroups_spark.tables.lake import Lake

# A note holds so many names; state_corrections has all.
NAMES_TOLD = 3


def read_again(plan: AuditPlan, progress: Sequence[RangeProgress], lake: Lake) -> dict[int, ReadAgain]:
    """By offsets partition what was read again and can be relied on: what is damaged by now says nothing of the log."""
    if not plan.read_again:
        return {}
    damaged = damaged_batches(progress)
    ends = {p.offsets_partition: p.start_offset for p in plan.read_again if p.offsets_partition not in damaged}
    nothing_new = dict(ends)
    for each in progress:
        if each.number >= 0 and each.offsets_partition in ends:
            ends[each.offsets_partition] = max(ends[each.offsets_partition], each.next_offset)
    nothing_new = {number: end for number, end in nothing_new.items() if ends[number] == end}
    waiting = _with_versions_before(lake, nothing_new)
    return {number: ReadAgain(end, frozenset(waiting.get(number, ()))) for number, end in ends.items()}


def damaged_batches(progress: Sequence[RangeProgress]) -> dict[int, int]:
    """By offsets partition how many corrupt batches there are in what was read again."""
    counts = {p.offsets_partition: p.quarantined["corrupt_batch"] for p in progress if p.number < 0}
    return {number: count for number, count in counts.items() if count}


def _with_versions_before(lake: Lake, end_offsets: dict[int, int]) -> dict[int, set[str]]:
    """By offsets partition the groups that have versions, or members with such, at the last offset before the end."""
    if not end_offsets:
        return {}
    at_the_end = F.lit(False)
    for number, end in end_offsets.items():
        at_the_end |= (F.col("offsets_partition") == number) & (F.col("log_offset") == end - 1)
    columns = ("offsets_partition", "group_id")
    versions = lake.read("group_versions").where(at_the_end).select(*columns)
    members = lake.read("group_member_versions").where(at_the_end).select(*columns)
    found: dict[int, set[str]] = {}
    for row in versions.union(members).distinct().collect():
        found.setdefault(row.offsets_partition, set()).add(row.group_id)
    return found


def correction_notes(lake: Lake, audit_id: int, plan: AuditPlan, progress: Sequence[RangeProgress]) -> list[str]:
    """What the audit corrected, a sentence for each partition that was read again and said otherwise."""
    if not plan.read_again:
        return []
    notes = [
        f"nothing of partition {number} was corrected: {counted(count, 'batch')} of what was read again "
        "cannot be read any more"
        for number, count in sorted(damaged_batches(progress).items())
    ]
    names = F.slice(F.array_sort(F.collect_list("group_id")), 1, NAMES_TOLD).alias("names")
    kinds = (
        lake.read("state_corrections")
        .where((F.col("audit_id") == audit_id) & (F.col("correction") != "baseline"))
        .groupBy("offsets_partition", "entry_type", "correction")
        .agg(F.count("*").alias("entries"), names)
        .orderBy("offsets_partition", "entry_type", F.col("correction").desc())
        .collect()
    )
    said: dict[int, list[str]] = {}
    for row in kinds:
        what = _corrected(row.entry_type, row.correction, row.entries, row.names)
        said.setdefault(row.offsets_partition, []).append(what)
    return notes + [
        f"partition {number} was corrected, as its log had forgotten what we had not read: {'; '.join(each)}"
        for number, each in said.items()
    ]


def _corrected(entry_type: str, correction: str, entries: int, names: Collection[str]) -> str:
    if entry_type == "producer":
        return f"{counted(entries, 'transaction')} {'ended' if correction == 'remove' else 'changed'}"
    more = f" and {entries - len(names):,} more" if entries > len(names) else ""
    groups = f"{counted(entries, 'group')} {{}} ({', '.join(names)}{more})"
    if entry_type == "noted":
        return groups.format("with other producers noted")
    if correction == "wait":
        return groups.format("will change when it is read again after its next record")
    return groups.format("gone" if correction == "remove" else "changed")
