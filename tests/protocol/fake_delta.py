"""Delta's logs in memory, for lakes without Spark: the package's own logs (lake/store.py), with Parquet files on disk.

Before each read of a log and each write to it another thread may run (turns.py). On a store that checks and then writes
(S3's) a version can be overwritten in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyarrow import acero

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local, LocalStore
from kgroups_spark.lake.store import Entry, Snapshot, actions_in
from kgroups_spark.spark.tasks import Processes
from kgroups_spark.tables.schemas import arrow_schema

# One task after the other, in this process.
LOOP = Processes(slots=1)


def folder_of(uri: str) -> Path:
    """The local path of a folder."""
    return Path(uri.removeprefix("file:"))


@dataclass(frozen=True)
class Version:
    """The text of one commit, and what follows from it. No two commits have the same text."""

    text: str
    entry: Entry

    @classmethod
    def of(cls, number: int, text: str) -> Version:
        return cls(text, Entry(number, actions_in(text, "a version in memory")))


# The versions of each table, by its path.
Logs = dict[str, list[Version]]


class FakeStore(LocalStore):
    """The logs of all tables in memory. `step` is called before each read and each write."""

    def __init__(self, *, looks_then_writes: bool = False) -> None:
        self.logs: Logs = {}
        self.looks_then_writes = looks_then_writes
        self.step: Callable[[], None] = lambda: None

    def entries(self, path: str, version: int | None = None) -> tuple[Entry, ...]:
        self.step()
        log = self.logs.get(path, [])
        return tuple(each.entry for each in (log if version is None else log[: version + 1]))

    def text(self, path: str, version: int) -> str:
        self.step()
        log = self.logs.get(path, [])
        if version >= len(log):
            raise FileNotFoundError(path)
        return log[version].text

    def write(self, path: str, version: int, text: str) -> bool:
        folder_of(path).mkdir(parents=True, exist_ok=True)
        log = self.logs.setdefault(path, [])
        self.step()
        if version < len(log):
            return False
        made = Version.of(version, text)
        if self.looks_then_writes:
            self.step()
            log[version:] = [made] if version >= len(log) else [made, *log[version + 1 :]]
            return True
        log.append(made)
        return True

    def write_checkpoint(self, path: str, snapshot: Snapshot) -> None:
        pass

    def delete(self, file_or_folder: str) -> None:
        self.step()
        super().delete(file_or_folder)


@dataclass(frozen=True)
class _File:
    """A file of a table, which never changes. A copy has the same rows."""

    folder: Path = field(compare=False)
    name: str
    size: int
    written_ns: int

    @classmethod
    def at(cls, folder: Path, name: str) -> _File:
        stat = (folder / name).stat()
        return cls(folder, name, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=1024)
def _rows_of_file(name: str, file: _File) -> pa.Table:
    # The files have few rows, and a dataset would take twice the time.
    rows = pyarrow.parquet.ParquetFile(file.folder / file.name).read(use_threads=False)
    wanted = arrow_schema(name)
    return rows if rows.schema.equals(wanted) else rows.cast(wanted)


class InMemory:
    """Rows of files, as from a dataset but in a tenth of its time: a dataset starts a scan with threads for each
    read."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def to_table(
        self, columns: list[str] | None = None, filter: pc.Expression | None = None, batch_readahead: int = 0
    ) -> pa.Table:
        rows = self._rows if columns is None else self._rows.select(columns)
        if filter is None:
            return rows
        chosen = _mask(self._rows, filter)
        # A filter copies all columns, those of the ledger in half a millisecond, and mostly every row is chosen.
        return rows if pc.all(chosen, skip_nulls=False).as_py() else rows.filter(chosen)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """For DuckDB."""
        return self._rows.__arrow_c_stream__(requested_schema)

    def to_batches(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None
    ) -> list[pa.RecordBatch]:
        rows = self.to_table(filter=filter)
        found: list[pa.RecordBatch] = rows.select(columns or rows.column_names).to_batches()
        return found


def _mask(rows: pa.Table, condition: pc.Expression) -> pa.ChunkedArray:
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    mask = acero.Declaration("project", acero.ProjectNodeOptions([condition], ["mask"]))
    return acero.Declaration.from_sequence([source, mask]).to_table(use_threads=False)["mask"]


@lru_cache(maxsize=256)
def _rows_of_files(name: str, files: tuple[_File, ...]) -> InMemory:
    rows = [_rows_of_file(name, file) for file in files]
    return InMemory(pa.concat_tables(rows).combine_chunks() if rows else arrow_schema(name).empty_table())


_dataset = Lake.dataset


def remembered(lake: Lake, name: str, paths: Sequence[str]) -> Any:
    """As Lake.dataset, but each file is opened once: files never change, and the ledger's are read all the time."""
    folder = folder_of(lake._path(name))
    try:
        return _rows_of_files(name, tuple(_File.at(folder, path) for path in paths))
    except (OSError, pa.ArrowInvalid):
        return _dataset(lake, name, paths)  # which says what is wrong with the file


@contextmanager
def one_by_one() -> Iterator[None]:
    """A lake's tables are changed and read one after the other, in one thread."""

    def called(calls: list[Callable[[], Any]], threads: int = 1) -> list[Any]:
        return [call() for call in calls]

    with (
        mock.patch("kgroups_spark.lake.lake.in_parallel", called),
        mock.patch("kgroups_spark.lake.claim.in_parallel", called),
    ):
        yield


@contextmanager
def in_memory() -> Iterator[None]:
    """For lakes with logs in memory. Reads each file once, because files never change, and compresses none: a file has
    few rows in many columns, and each column would need a separate compressor."""
    with (
        one_by_one(),
        mock.patch.object(Lake, "dataset", remembered),
        mock.patch.object(Lake, "stand_in", None),
        mock.patch("kgroups_spark.lake.parts.COMPRESSION", "none"),
    ):
        yield


@contextmanager
def in_this_process() -> Iterator[None]:
    """The same, and each thread is a separate host."""
    with in_memory(), mock.patch("kgroups_spark.lake.last_finished.this_host", lambda: threading.current_thread().name):
        yield


def fake_lake(store: FakeStore, folder: Path) -> Lake:
    """The lake in the folder, created if necessary."""
    return Lake.create(Local(store, LOOP), str(folder))


def answer(query: str, tables: dict[str, pa.Table]) -> pa.Table:
    """The answer to a query of DuckDB over these tables."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(query).to_arrow_table()
