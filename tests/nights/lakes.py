"""Lakes of audits for tests: growing folders, and the tables read without Spark."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from kgroups_spark.records.segment import scan_batches
from kgroups_spark.tables.schemas import TABLES

# Every record read is in exactly one of these (R1).
HISTORY = ["offset_commits", "group_records", "transaction_markers", "quarantine"]

# Rows of these tables are equal for every way to the lake, except for the number of the audit that wrote them.
# (Findings are left out, because each audit looks for them again.)
COMPARED = [n for n, t in TABLES.items() if t.kind in ("history", "current") and n != "findings"]


def rows(lake: Path | str, name: str) -> list[dict[str, Any]]:
    """All rows of a table, read by deltalake."""
    return list(_table(_Stored.at(Path(lake) / name)).to_pylist())


@dataclass(frozen=True)
class _Stored:
    """A table's log, and its files, which decide its rows. A copy of the table has the same."""

    folder: Path = field(compare=False)
    log: tuple[bytes, ...]
    files: frozenset[tuple[str, int, int]]

    @classmethod
    def at(cls, folder: Path) -> _Stored:
        files = (entry for entry in os.scandir(folder) if entry.name.endswith(".parquet"))
        found = frozenset((entry.name, at.st_size, at.st_mtime_ns) for entry in files for at in [entry.stat()])
        return cls(folder, tuple(path.read_bytes() for path in sorted((folder / "_delta_log").glob("*.json"))), found)


@lru_cache(maxsize=1024)
def _table(stored: _Stored) -> pa.Table:
    """The tables of most lakes are read several times: before and after what leaves them as they are."""
    return DeltaTable(str(stored.folder)).to_pyarrow_table()


Tables = dict[str, list[dict[str, Any]]]


def contents(lake: Path | str, names: list[str] | None = None) -> dict[str, list[str]]:
    """The sorted rows of tables, without audit_id."""
    return {name: list(_content_of(_Stored.at(Path(lake) / name))) for name in names or COMPARED}


def contents_of(tables: Tables) -> dict[str, list[str]]:
    """The same for the rows of all tables."""
    return {name: _content(tables[name]) for name in COMPARED}


@lru_cache(maxsize=1024)
def _content_of(stored: _Stored) -> list[str]:
    return _content(_table(stored).to_pylist())


def _content(some: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted((key, value) for key, value in row.items() if key != "audit_id")) for row in some)


def versions(lake: Path | str) -> dict[str, int]:
    """The version of every table's log."""
    return {name: DeltaTable(f"{lake}/{name}").version() for name in TABLES}


def copy_until(source: Path, target: Path, share: float) -> None:
    """The offsets partitions in `source`, each cut at a batch border after about `share` of its bytes."""
    for folder in sorted(source.glob("__consumer_offsets-*")):
        copied = target / folder.name
        shutil.rmtree(copied, ignore_errors=True)
        copied.mkdir(parents=True)
        wanted = int(sum(f.stat().st_size for f in folder.glob("*.log")) * share)
        for segment in sorted(folder.glob("*.log")):
            data = segment.read_bytes()
            if len(data) > wanted:
                with segment.open("rb") as file:
                    batches = scan_batches(file)
                ends = [int(end) for end in batches.position + batches.size if end <= wanted]
                data = data[: max(ends, default=0)]
            (copied / segment.name).write_bytes(data)
            wanted -= segment.stat().st_size
            if wanted <= 0:
                break


def assert_keys(lake: Path | str) -> None:
    """Checks that rows of the public tables have the keys of the contract."""
    for name in COMPARED:
        keys = Counter(tuple(row[column] for column in TABLES[name].key) for row in rows(lake, name))
        assert [key for key, times in keys.items() if times > 1] == [], name


def in_segments(source: Path, target: Path, batches: int) -> None:
    """Copies the offsets partitions in `source`, of one segment each, into segments of `batches` batches."""
    for segment in sorted(source.glob("__consumer_offsets-*/*.log")):
        data, folder = segment.read_bytes(), target / segment.parent.name
        folder.mkdir(parents=True)
        with segment.open("rb") as file:
            found = scan_batches(file)
        starts = [*found.position[::batches].tolist(), len(data)]
        for first, start, end in zip(found.base_offset[::batches].tolist(), starts, starts[1:], strict=False):
            (folder / f"{first:020d}.log").write_bytes(data[start:end])


def assert_every_record_is_in_one_table(lake: Path | str, tables: Tables | None = None) -> None:
    """Per audit and offsets partition, records read and not read before = rows added (R1). `tables`: its rows."""
    tables = tables or {name: rows(lake, name) for name in (*HISTORY, "audits")}
    added: Counter[tuple[int, int]] = Counter()
    for name in HISTORY:
        for row in tables[name]:
            added[row["audit_id"], row["offsets_partition"]] += row.get("record_count", 1)
    said: Counter[tuple[int, int]] = Counter()
    for row in tables["audits"]:
        for partition in row["partitions"] or ():
            if partition.get("topic") is not None:
                continue  # of another log, see test_state_logs.py
            key = row["audit_id"], partition["offsets_partition"]
            said[key] += partition["records"] - partition["records_reread"]
    assert added == +said
