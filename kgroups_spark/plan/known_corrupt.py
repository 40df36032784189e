"""Corrupt batches that an audit comes upon again: those after the last sound batch that was read."""

from __future__ import annotations

from collections.abc import Collection

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.store import TableFile
from kgroups_spark.tables.conditions import Condition

KnownCorrupt = dict[int, set[tuple[str, int]]]


def known_corrupt(lake: Lake, before: AuditRow | None) -> KnownCorrupt:
    """File names and positions of corrupt batches that are in quarantine, by offsets partition.

    Older ones are left out where they do not cost a look: once a sound batch after it was read, none is met again. So
    what the last audit (None: none has finished) came upon is enough for every partition that it read a batch of.
    """
    if before is None:
        return {}
    idle = {each.offsets_partition for each in before.partitions or () if not _was_read(each)}
    files = [file for file in lake.table("quarantine").files() if _may_hold(file, before.audit_id, idle)]
    columns = ["offsets_partition", "file", "file_position"]
    is_one = [Condition("reason", "==", "corrupt_batch"), Condition("file", "is not null")]
    known: KnownCorrupt = {}
    for row in lake.rows("quarantine", files=files, columns=columns, conditions=is_one).to_pylist():
        name = row["file"].rsplit("/", 1)[-1]
        known.setdefault(row["offsets_partition"], set()).add((name, row["file_position"]))
    return known


def _was_read(progress: PartitionProgress) -> bool:
    """Whether the audit came upon a sound batch of the partition."""
    return progress.last_batch_offset is not None and progress.last_batch_offset >= progress.start_offset


def _may_hold(file: TableFile, audit_id: int, idle: Collection[int]) -> bool:
    """Whether rows of that audit, or of older ones about those partitions, may be in the file."""
    newest = file.bound("maxValues", "audit_id")
    lowest, highest = (file.bound(which, "offsets_partition") for which in ("minValues", "maxValues"))
    if newest is None or lowest is None or highest is None or newest >= audit_id:
        return True
    return any(lowest <= offsets_partition <= highest for offsets_partition in idle)
