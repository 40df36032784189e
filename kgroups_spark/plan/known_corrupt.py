"""Corrupt batches that an audit finds again: those after the last sound batch that was read."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.store import TableFile
from kgroups_spark.tables.conditions import Condition

KnownCorrupt = dict[int, set[tuple[str, int]]]
IN_A_FILE = (Condition("reason", "==", "corrupt_batch"), Condition("file", "is not null"))


def known_corrupt(lake: Lake, before: AuditRow | None) -> KnownCorrupt:
    """File names and positions of corrupt batches that are in quarantine, by offsets partition.

    Older ones are left out if their files can be skipped: once a sound batch after it was read, a corrupt batch is not
    found again. So for each partition with a sound batch in the last audit (None: no audit has finished), its corrupt
    batches are enough.
    """
    if before is None:
        return {}
    idle = {each.offsets_partition for each in before.partitions or () if not _was_read(each)}
    files = [file for file in lake.table("quarantine").files() if _may_hold(file, before.audit_id, idle)]
    columns = ["offsets_partition", "file", "file_position"]
    return places(lake.rows("quarantine", files=files, columns=columns, conditions=IN_A_FILE), "offsets_partition")


def places(corrupt: pa.Table, partition: str) -> KnownCorrupt:
    """The file names and positions of rows with file and file_position, by their column `partition`."""
    known: KnownCorrupt = {}
    for row in corrupt.to_pylist():
        known.setdefault(row[partition], set()).add((row["file"].rsplit("/", 1)[-1], row["file_position"]))
    return known


def _was_read(progress: PartitionProgress) -> bool:
    """Whether the audit read a sound batch of the partition."""
    return progress.last_batch_offset is not None and progress.last_batch_offset >= progress.start_offset


def _may_hold(file: TableFile, audit_id: int, idle: Collection[int]) -> bool:
    """Whether the file may have rows of that audit, or rows of older audits about the `idle` partitions."""
    newest = file.bound("maxValues", "audit_id")
    lowest, highest = (file.bound(which, "offsets_partition") for which in ("minValues", "maxValues"))
    if newest is None or lowest is None or highest is None or newest >= audit_id:
        return True
    return any(lowest <= offsets_partition <= highest for offsets_partition in idle)
