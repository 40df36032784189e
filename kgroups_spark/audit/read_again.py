"""Partitions that are read again from their start: the replay's facts about them, and the ledger's notes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kgroups_spark.counts import counted
from kgroups_spark.decoding.range_progress import RangeProgress, damaged_when_read_again, not_corrected_notes
from kgroups_spark.lake.lake import Lake
from kgroups_spark.plan.audit_plan import AuditPlan
from kgroups_spark.replay.corrections import Correction
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.internal import REREAD
from kgroups_spark.tables.schemas import CHECKPOINTS

# The number of names in a note; checkpoints have all.
NAMES_REPORTED = 3
IN_ORDER = ("group", "noted", "producer")


def read_again(plan: AuditPlan, progress: Sequence[RangeProgress]) -> dict[int, int]:
    """By offsets partition, the end of a log that was read again, if that is reliable: a part that is now damaged
    proves nothing. Without a new record there is no log offset for versions: another audit corrects the partition."""
    damaged = damaged_when_read_again(progress)
    starts = {p.offsets_partition: p.start_offset for p in plan.read_again if p.offsets_partition not in damaged}
    ends = dict[int, int]()
    for each in progress:
        number = each.offsets_partition
        if not each.is_reread and number in starts and each.next_offset > starts[number]:
            ends[number] = max(ends.get(number, 0), each.next_offset)
    return ends


def correction_notes(lake: Lake, audit_id: int, plan: AuditPlan, progress: Sequence[RangeProgress]) -> list[str]:
    """The corrections of the audit, a sentence for each partition whose log differed when it was read again, or that
    could not be corrected."""
    if not plan.read_again:
        return []
    in_vain = {each.offsets_partition for each in progress if each.is_reread} - damaged_when_read_again(progress).keys()
    in_vain &= {each.offsets_partition for each in plan.read_again if each.new is None}
    ours = [Condition("audit_id", "==", audit_id), Condition("reason", "==", REREAD)]
    rows = lake.rows(CHECKPOINTS, columns=["offsets_partition", *Correction._fields], conditions=ours)
    groups: dict[tuple[int, int, bool], list[str | None]] = {}
    for number, *entry in zip(*rows.to_pydict().values(), strict=True):
        correction = Correction(*entry)
        kind = number, IN_ORDER.index(correction.entry_type), not correction.is_gone
        groups.setdefault(kind, []).append(correction.group_id)
    by_partition: dict[int, list[str]] = {}
    for kind in sorted(groups):
        number, entry_type, stays = kind
        names = sorted(filter(None, groups[kind]))[:NAMES_REPORTED]
        by_partition.setdefault(number, []).append(_corrected(IN_ORDER[entry_type], stays, len(groups[kind]), names))
    return [
        *not_corrected_notes(progress),
        *(f"partition {each} was read again, but has no new record: not corrected" for each in sorted(in_vain)),
    ] + [
        f"partition {number} was corrected: compaction removed records before we read them: {'; '.join(each)}"
        for number, each in by_partition.items()
    ]


def _corrected(entry_type: str, stays: bool, entries: int, names: Collection[str]) -> str:
    if entry_type == "producer":
        return f"{counted(entries, 'transaction')} {'changed' if stays else 'ended'}"
    more = f" and {entries - len(names):,} more" if entries > len(names) else ""
    groups = f"{counted(entries, 'group')} {{}} ({', '.join(names)}{more})"
    if entry_type == "noted":
        return groups.format("with other producers noted")
    return groups.format("changed" if stays else "gone")
