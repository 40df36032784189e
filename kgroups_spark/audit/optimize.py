"""Upkeep of the tables: small files are compacted in an order that suits queries, and files that no version needs any
more are deleted.

An audit leaves a few small files in each table, with the rows of one night. They are rewritten in lots of consecutive
nights, sorted by group, offsets partition, topic, partition and log offset. Then a query for "one group, last week"
reads a few row groups of a few files, even without the group's offsets partition. Delta's own OPTIMIZE only
concatenates files, and its ZORDER BY starts from the whole table each time and does not sort inside a file;
benchmarks/README.md has the figures. Neither way needs more than reader version 1 and writer version 2.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

from pyspark.sql import DataFrame, Row

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.fence import named_if_lost
from kgroups_spark.lake.lake import Lake, parquet_of
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.store import ChangedMeanwhile, TableFile, total_rows
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.sinks import parts_of
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import HOUR_MS

# The size to aim for in a file, the size below which it is small, and the size of a lot of nights, sorted at once.
FILE_BYTES = 32 << 20
SMALL_BYTES = FILE_BYTES // 2
LOT_BYTES = 256 << 20

IN_ORDER_OF = ("group_id", "transactional_id", "offsets_partition", "topic", "partition", "hour", "log_offset")


@dataclass(frozen=True)
class Rewritten:
    """The outcome for a table's files, or the expected one (`bytes_after` None: not known before a run)."""

    table: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int | None


def is_optimized(name: str) -> bool:
    """Whether the table is optimized. Each audit rewrites current tables anyway, and a file of saved states must have
    those of one audit only."""
    return TABLES[name].kind in ("history", "ledger")


def lots(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """The small files, oldest audits first, in lots that are worth rewriting because the result has fewer files."""
    small = sorted((file for file in files if file.size < SMALL_BYTES), key=_oldest_audit)
    found: list[list[TableFile]] = [[]]
    for file in small:
        if total_bytes(found[-1]) >= LOT_BYTES:
            found.append([])
        found[-1].append(file)
    return [lot for lot in found if len(lot) > files_for(total_bytes(lot))]


def files_for(size_bytes: int) -> int:
    """The number of files for that many bytes."""
    return max(1, -(-size_bytes // FILE_BYTES))


def total_bytes(files: Sequence[TableFile]) -> int:
    return sum(file.size for file in files)


def optimize(writer: LakeWriter, name: str) -> Rewritten:
    """Compacts the table's small files; one commit for each lot, and none if there is nothing to gain."""
    before = writer.lake.table(name).files()
    for lot in lots(before):
        rewrite(writer, name, lot)
    after = writer.lake.table(name).files()
    return Rewritten(name, len(before), len(after), total_bytes(before), total_bytes(after))


def foreseen(lake: Lake, name: str) -> Rewritten:
    """The work that `optimize` would do."""
    files = lake.table(name).files()
    fewer = sum(len(lot) - files_for(total_bytes(lot)) for lot in lots(files))
    return Rewritten(name, len(files), len(files) - fewer, total_bytes(files), None)


def rewrite(writer: LakeWriter, name: str, files: Sequence[TableFile]) -> None:
    """Rewrites the files' rows, sorted, into new files, in one commit.

    Raises KgroupsError, with nothing committed, if the number of rows differs, or if another process has replaced one
    of the files.
    """
    log = writer.lake.table(name)
    files_in_full = [f"{log.path}/{unquote(file.path)}" for file in files]
    rows = parquet_of(writer.lake.spark, TABLES[name].schema, files_in_full)
    parts = parts_of(writer.lake.runner, in_order(rows, name, files_for(total_bytes(files))), writer.part_writer(name))
    missing = total_rows(files) - sum(part.records for part in parts)
    if missing:
        raise KgroupsError(f"table {name}: of {total_rows(files)} rows {missing} would be missing; nothing was changed")
    replace_files(writer, name, files, parts, changes_rows=False)


def replace_files(
    writer: LakeWriter, name: str, files: Sequence[TableFile], parts: Sequence[Part], *, changes_rows: bool = True
) -> None:
    """Replaces the files by the parts, in one commit. Raises KgroupsError, with nothing committed, if a part is
    missing, or if another process has replaced one of the files."""
    log, paths = writer.lake.table(name), {file.path for file in files}
    missing = log.missing(parts)
    if missing:
        raise KgroupsError(f"table {name}: parts that tasks wrote are not there ({missing[0]}); nothing was changed")
    replace = partial(
        log.commit,
        parts,
        by=f"kgroups-spark maintain {writer.audit_id}",
        remove=lambda file: file.path in paths,
        removes=len(paths),
        changes_rows=changes_rows,
    )
    try:
        operation = "replace" if changes_rows else "optimize"
        writer.fence.commit(name, operation, lambda transaction: replace(transaction=transaction))
    except ChangedMeanwhile as meanwhile:
        raise KgroupsError(
            f"table {name}: another program rewrote its files at the same time ({meanwhile}): run maintain again"
        ) from meanwhile


def restore_files(writer: LakeWriter, name: str, version: int | None) -> None:
    """Restores the files of an earlier version of the table. Raises KgroupsError if they are gone."""
    log = writer.lake.table(name)
    then, now = ({file.path: file for file in log.files(at)} for at in (version, None))
    if then.keys() == now.keys():
        return
    parts = [
        Part(name, unquote(path), file.size, int(file.stats["numRecords"]), json.dumps(file.stats))
        for path, file in then.items()
        if path not in now
    ]
    missing = log.missing(parts)
    if missing:
        raise KgroupsError(f"table {name}: what the last finished audit left is gone ({missing[0]}): run kgroups audit")
    by = f"kgroups-spark maintain {writer.audit_id}, as of the last finished audit"
    replace = partial(log.commit, parts, by=by, remove=lambda file: file.path not in then)
    writer.fence.commit(name, "replace", lambda transaction: replace(transaction=transaction))


def columns_of_order(name: str) -> list[str]:
    """The columns that the rows of a table are sorted by."""
    return [column for column in IN_ORDER_OF if column in TABLES[name].schema.names] or ["audit_id"]


def in_order(rows: DataFrame, name: str, files: int) -> DataFrame:
    """The table's rows, sorted and cut into so many Spark partitions of about the same number of rows."""
    columns = columns_of_order(name)
    placed = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *columns)
    return placed.sortWithinPartitions(*columns)


def _oldest_audit(file: TableFile) -> tuple[int, str]:
    return (file.bound("minValues", "audit_id") or 0, file.path)


def vacuum(writer: LakeWriter, name: str, retain_ms: int) -> int:
    """Deletes the files that no version within `retain_ms` needs, including those of failed tasks; returns the bytes
    freed."""
    lake = writer.lake
    before = _old_bytes(lake, name, retain_ms)
    if not before:
        return 0  # Delta's listing costs seconds a table
    statement = _vacuum(lake, name, retain_ms)
    # These files are needed by no version within that time, not even of an audit that has taken over meanwhile.
    with named_if_lost(writer.check_claim):
        lake.commit(name, "vacuum", lambda: _quietly(lake, statement))
    return before - _old_bytes(lake, name, retain_ms)


def vacuumable(lake: Lake, name: str, retain_ms: int) -> int:
    """The bytes that `vacuum` would free (in at most 1,000 files, because Delta lists no more)."""
    if not _old_bytes(lake, name, retain_ms):
        return 0
    named = {row.path.rsplit("/", 1)[-1] for row in _quietly(lake, f"{_vacuum(lake, name, retain_ms)} DRY RUN")}
    files = lake.store.files_in(lake.table(name).path)
    return sum(size for path, (size, _) in files.items() if path in named)


def _old_bytes(lake: Lake, name: str, retain_ms: int) -> int:
    """The bytes of files that no longer belong to the table, or never did, and are old enough to delete."""
    log, last_ms = lake.table(name), time.time() * 1000 - retain_ms
    live = {unquote(file.path) for file in log.files()}
    files = lake.store.files_in(log.path)
    return sum(size for path, (size, at_ms) in files.items() if path not in live and at_ms < last_ms)


def _vacuum(lake: Lake, name: str, retain_ms: int) -> str:
    return f"VACUUM {lake.identifier(name)} RETAIN {-(-retain_ms // HOUR_MS)} HOURS"


def _quietly(lake: Lake, statement: str) -> list[Row]:
    """Runs a VACUUM statement and returns its rows. Delta's own messages go to stderr: stdout is for rows."""
    with lake.store.telling_on_stderr():
        return lake.spark.sql(statement).collect()
