"""Delta tables in this process, for the package's own code: logs in memory, Parquet files on disk, no JVM.

A log has the parts of Kernel's that we use: versions, each of which can be written once; transactions; conflicts that a
commit checks. Before each read of a log and each write to it another thread may run (turns.py). On a store that checks
and then writes (S3's) a version can be overwritten in between.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyarrow import acero

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.store import AlreadyWritten, ChangedMeanwhile, Removal, Store, TableFile, TableLog
from kgroups_spark.tables.schemas import arrow_schema


def folder_of(uri: str) -> Path:
    """The local path of a folder."""
    return Path(uri.removeprefix("file:"))


@dataclass(frozen=True)
class Version:
    """The contents of one commit. No two commits have the same `name`."""

    adds: tuple[TableFile, ...] = ()
    removes: frozenset[str] = frozenset()
    transactions: tuple[tuple[str, int], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    schema_json: str | None = None
    changes_rows: bool = True
    name: str = field(default_factory=lambda: str(uuid.uuid4()))


# The versions of each table, by its path.
Logs = dict[str, list[Version]]


class FakeStore:
    """The logs of all tables. `step` is called before each read and each write."""

    def __init__(self, *, looks_then_writes: bool = False) -> None:
        self.logs: Logs = {}
        self.looks_then_writes = looks_then_writes
        self.step: Callable[[], None] = lambda: None

    def log(self, path: str) -> list[Version]:
        """The versions of the table at that path; empty if there is no table."""
        return list(self.logs.get(path, []))

    def tables_in(self, folder: str) -> set[str]:
        """The names of the folder's tables."""
        return {path[len(folder) + 1 :].split("/")[0] for path in self.logs if path.startswith(f"{folder}/")}

    def put(self, path: str, number: int, version: Version) -> bool:
        """Writes the version; False: it exists already."""
        log = self.logs.setdefault(path, [])
        self.step()
        if number < len(log):
            return False
        if self.looks_then_writes:
            self.step()
            log[number:] = [version] if number >= len(log) else [version, *log[number + 1 :]]
            return True
        log.append(version)
        return True


class FakeTable(TableLog):
    """The log of a table in a store."""

    def __init__(self, store: FakeStore, path: str) -> None:
        self._store, self.path = store, path

    def _snapshot(self, version: int | None = None) -> list[Version]:
        self._store.step()
        log = self._store.log(self.path)
        return log if version is None else log[: version + 1]

    def exists(self) -> bool:
        return bool(self._snapshot())

    def create(self, schema_json: str, comment: str, properties: dict[str, str]) -> None:
        folder_of(self.path).mkdir(parents=True, exist_ok=True)
        self._store.put(self.path, 0, Version(properties=tuple(properties.items()), schema_json=schema_json))

    def version(self) -> int:
        return len(self._snapshot()) - 1

    def entry(self, version: int) -> str | None:
        log = self._snapshot()
        return log[version].name if version < len(log) else None

    def properties(self) -> dict[str, str]:
        return dict(self._definition().properties)

    def schema_json(self) -> str:
        return self._definition().schema_json or ""

    def _definition(self) -> Version:
        return next(version for version in reversed(self._snapshot()) if version.schema_json is not None)

    def features(self) -> set[str]:
        return set()

    def refusal(self) -> str | None:
        return None

    def missing(self, parts: Sequence[Part]) -> list[str]:
        places = ((folder_of(self.path) / part.path, part.size) for part in parts)
        return [str(place) for place, size in places if not place.is_file() or place.stat().st_size != size]

    def last_transaction(self, app_id: str) -> int | None:
        return _last_transaction(self._snapshot(), app_id)

    def version_as_of(self, app_id: str, transaction: int) -> int:
        log = self._snapshot()
        while (_last_transaction(log, app_id) or 0) > transaction:
            log.pop()
        return len(log) - 1

    def files(self, version: int | None = None) -> list[TableFile]:
        return _files(self._snapshot(version))

    def shut_out(self, transactions: dict[str, int], *, by: str) -> None:
        log = self._snapshot()
        older = {app: to for app, to in transactions.items() if (_last_transaction(log, app) or 0) < to}
        if older and not self._store.put(self.path, len(log), Version(transactions=tuple(older.items()))):
            raise ChangedMeanwhile(self.path)

    def commit(
        self,
        parts: Sequence[Part],
        *,
        by: str,
        transaction: tuple[str, int] | None,
        remove: Removal | None = None,
        removes: int | None = None,
        changes_rows: bool = True,
    ) -> int:
        log = self._snapshot()
        transactions = () if transaction is None else (transaction,)
        _refuse_repeated(log, transactions)
        added = tuple(map(_file, parts))
        removed = frozenset(file.path for file in _files(log) if remove is not None and remove(file))
        if remove is not None and removes not in (None, len(removed)):
            raise ChangedMeanwhile(f"{len(removed)} of {removes}")
        version = Version(added, removed, transactions, changes_rows=changes_rows)
        while True:
            _refuse_repeated(log, transactions)
            if self._store.put(self.path, len(log), version):
                return len(log)
            if remove is not None:
                raise ChangedMeanwhile(self.path)
            log = self._snapshot()


def _files(log: list[Version]) -> list[TableFile]:
    files: dict[str, TableFile] = {}
    for version in log:
        for path in version.removes:
            files.pop(path, None)
        files |= {file.path: file for file in version.adds}
    return list(files.values())


def _last_transaction(log: list[Version], app_id: str) -> int | None:
    return next((n for version in reversed(log) for app, n in version.transactions if app == app_id), None)


def _refuse_repeated(log: list[Version], transactions: tuple[tuple[str, int], ...]) -> None:
    for app_id, number in transactions:
        newest = _last_transaction(log, app_id)
        if newest is not None and newest >= number:
            raise AlreadyWritten(f"its newest is {newest}")


def _file(part: Part) -> TableFile:
    return TableFile(part.path, json.loads(part.stats_json), part.size)


class FakeKernel(Store):
    """As kernel.Kernel, over a store."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store

    def table(self, path: str) -> FakeTable:
        return FakeTable(self._store, path)

    def qualified(self, location: str) -> str:
        return location

    def delete(self, file_or_folder: str) -> None:
        self._store.step()
        place = folder_of(file_or_folder)
        if place.is_file():
            place.unlink()
        shutil.rmtree(place, ignore_errors=True)

    def names_in(self, folder: str) -> list[str]:
        here = {path.name for path in folder_of(folder).glob("*")}
        return sorted(here | self._store.tables_in(folder))

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        stats = {path.name: path.stat() for path in folder_of(folder).iterdir() if path.is_file()}
        return {name: (each.st_size, int(each.st_mtime * 1000)) for name, each in stats.items()}

    def fetch(self, uri: str, path: str) -> None:
        shutil.copyfile(folder_of(uri), path)

    def put(self, path: str, uri: str) -> None:
        shutil.copyfile(path, folder_of(uri))

    def telling_on_stderr(self) -> AbstractContextManager[None]:
        return nullcontext()


class FakeSpark:
    """A session with a store; a statement of tests empties a table."""

    def __init__(self, store: FakeStore) -> None:
        self.store = store

    def sql(self, statement: str) -> Any:
        found = re.fullmatch(r"DELETE FROM delta\.`(.*)`", statement)
        assert found, statement
        return FakeTable(self.store, found[1]).commit([], by="", transaction=None, remove=lambda _: True)


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

    def to_table(self, columns: list[str] | None = None, filter: pc.Expression | None = None) -> pa.Table:
        rows = self._rows if columns is None else self._rows.select(columns)
        if filter is None:
            return rows
        chosen = _mask(self._rows, filter)
        # A filter copies all columns, those of the ledger in half a millisecond, and mostly every row is chosen.
        return rows if pc.all(chosen, skip_nulls=False).as_py() else rows.filter(chosen)

    def to_batches(self, filter: pc.Expression | None = None) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = self.to_table(filter=filter).to_batches()
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
def opened_once() -> Iterator[None]:
    """Reads each file of a lake once, one after the other, and compresses none: a file has few rows in many columns,
    and each column would need a separate compressor."""

    def one_by_one(calls: list[Callable[[], Any]], threads: int = 1) -> list[Any]:
        return [call() for call in calls]

    with (
        mock.patch.object(Lake, "dataset", remembered),
        mock.patch("kgroups_spark.lake.lake.in_parallel", one_by_one),
        mock.patch("kgroups_spark.lake.claim.in_parallel", one_by_one),
        mock.patch("kgroups_spark.lake.parts.COMPRESSION", "none"),
    ):
        yield


@contextmanager
def in_this_process() -> Iterator[None]:
    """Opens lakes over fake stores, which need no Spark, and makes each thread a separate host."""
    with (
        opened_once(),
        mock.patch("kgroups_spark.lake.lake.Kernel", lambda spark: FakeKernel(spark.store)),
        mock.patch("kgroups_spark.lake.last_finished.this_host", lambda: threading.current_thread().name),
        mock.patch.object(Lake, "stand_in", None),
    ):
        yield


def fake_lake(store: FakeStore, folder: Path) -> Lake:
    """The lake in the folder, created if necessary."""
    spark: Any = FakeSpark(store)
    return Lake.create(spark, str(folder))
