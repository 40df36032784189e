"""A lake in a folder of this machine without Spark: Delta's logs by Python, tasks in processes.

A table's log is a folder of numbered files, each with the actions of one commit as lines of JSON. A commit is made by
creating the file of the next number, which only one of two processes can do. Now and then a checkpoint, a Parquet file,
has all actions that still count, so that readers need no earlier file (Delta's PROTOCOL.md; tables have version 1 of
readers and 2 of writers). `tests/protocol/test_stores.py` compares all answers and refusals with Delta Kernel's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.last_finished import version_gone
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.store import (
    PROTOCOL,
    AlreadyWritten,
    ChangedMeanwhile,
    Removal,
    Store,
    TableFile,
    TableLog,
    metadata,
    refusal,
    whole_checkpoints,
)
from kgroups_spark.sources.files import create_local
from kgroups_spark.spark.tasks import Processes, Runner
from kgroups_spark.tables.schemas import is_path
from kgroups_spark.words import DAY_MS

Action = dict[str, Any]


@dataclass(frozen=True)
class Local:
    """The engine, in the place of a Spark session."""

    store: LocalStore = field(default_factory=lambda: LocalStore())
    runner: Runner = field(default_factory=Processes)


@dataclass(frozen=True, eq=False)
class Entry:
    """A file of a log: the commit or a part of the checkpoint of a version."""

    version: int
    actions: Sequence[Action]


class Snapshot(NamedTuple):
    """All that counts at a version. `adds` and `removes` are by path; `transactions`: by application id."""

    version: int
    adds: dict[str, Action]
    removes: dict[str, Action]
    transactions: dict[str, Action]
    metadata: Action
    protocol: Action

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    def files(self) -> list[TableFile]:
        return [_file(path, add["size"], add.get("stats") or "{}") for path, add in self.adds.items()]

    def last_transaction(self, app_id: str) -> int | None:
        found = self.transactions.get(app_id)
        return None if found is None else int(found["version"])

    def kept(self) -> Iterator[Action]:
        """The actions of a checkpoint. A removed file is named as long as VACUUM must not delete it: for a week, unless
        the table says otherwise."""
        yield {"protocol": self.protocol}
        yield {"metaData": self.metadata}
        yield from ({"txn": each} for each in self.transactions.values())
        since = -1 if "delta.deletedFileRetentionDuration" in self.properties else _now_ms() - 7 * DAY_MS
        for remove in self.removes.values():
            if (remove.get("deletionTimestamp") or 0) > since:
                yield {"remove": remove | {"dataChange": False}}
        yield from ({"add": each | {"dataChange": False}} for each in self.adds.values())


class LocalStore(Store):
    def table(self, path: str) -> LocalTable:
        return LocalTable(self, path)

    def qualified(self, location: str) -> str:
        require_local(location)
        return f"file:{_local(location).resolve()}"

    def delete(self, file_or_folder: str) -> None:
        place = _local(file_or_folder)
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)

    def names_in(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError):
            return [each.name for each in _local(folder).iterdir()]
        return []

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        stats = {entry.name: entry.stat() for entry in os.scandir(_local(folder)) if entry.is_file()}
        return {name: (each.st_size, each.st_mtime_ns // 1_000_000) for name, each in stats.items()}

    def fetch(self, uri: str, path: str) -> None:
        shutil.copyfile(_local(uri), path)

    def put(self, path: str, uri: str) -> None:
        shutil.copyfile(path, _local(uri))

    def entries(self, path: str, version: int | None = None) -> tuple[Entry, ...]:
        """The files of a table's log from which a version (None: the newest) follows: the newest checkpoint, and the
        commits after it; empty if there is no table. Raises FileNotFoundError if one of them is gone."""
        log = _local(path) / "_delta_log"
        names = self.names_in(str(log))
        checkpoints = whole_checkpoints(names)
        commits = (int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name))
        last = max([*commits, *checkpoints], default=-1) if version is None else version
        start = max((each for each in checkpoints if each <= last), default=-1)
        found = [_checkpoint(log / name, *_identity(log / name)) for name in checkpoints.get(start, ())]
        commits_since = (log / f"{number:020d}.json" for number in range(start + 1, last + 1))
        return (*found, *(_commit(file, *_identity(file)) for file in commits_since))

    def text(self, path: str, version: int) -> str:
        """The text of a commit. Raises FileNotFoundError."""
        return (_local(path) / f"_delta_log/{version:020d}.json").read_text(encoding="utf-8")

    def write(self, path: str, version: int, text: str) -> bool:
        """Writes the commit; False: the version exists."""
        return create_local(f"{path}/_delta_log/{version:020d}.json", text)

    def write_checkpoint(self, path: str, snapshot: Snapshot) -> None:
        log, rows = _local(path) / "_delta_log", list(snapshot.kept())
        pq.write_table(pa.Table.from_pylist(rows, CHECKPOINT), log / (new := f".{uuid.uuid4()}.tmp"))
        (log / new).replace(log / f"{snapshot.version:020d}.checkpoint.parquet")
        (log / new).write_text(json.dumps({"version": snapshot.version, "size": len(rows)}))
        (log / new).replace(log / "_last_checkpoint")


def require_local(location: str) -> None:
    """Raises UsageError for the location of a lake that is no folder of this machine."""
    if not is_path(location) or ("://" in location and not location.startswith("file:")):
        raise UsageError(
            f"--engine local writes to a folder of this machine, and {location} is in "
            f"{'a store' if is_path(location) else 'a catalog'}, which Spark reaches: leave --engine out"
        )


class LocalTable(TableLog):
    def __init__(self, store: LocalStore, path: str) -> None:
        self._store, self.path = store, path

    def _snapshot(self, version: int | None = None) -> Snapshot:
        """Raises FileNotFoundError if there is no such table, or its log no longer has that version."""
        entries = self._store.entries(self.path, version)
        if not entries:
            raise FileNotFoundError(f"{self.path}: no table, or no such version of it")
        found = _folded(entries)
        if found.protocol.get("minReaderVersion", 1) > 1 or found.protocol.get("minWriterVersion", 2) > 2:
            raise KgroupsError(
                f"{self.path} has features of Delta that --engine local does not know ({found.protocol}): leave it out"
            )
        return found

    def exists(self) -> bool:
        return bool(self._store.entries(self.path))

    def create(self, schema_json: str, comment: str, properties: dict[str, str]) -> None:
        if not self.exists():
            self._write(None, [PROTOCOL, metadata(schema_json, comment, properties)], "kgroups-spark", "CREATE TABLE")

    def version(self) -> int:
        return self._snapshot().version

    def entry(self, version: int) -> str | None:
        with suppress(FileNotFoundError):
            return self._store.text(self.path, version)
        return None

    def properties(self) -> dict[str, str]:
        return self._snapshot().properties

    def schema_json(self) -> str:
        return str(self._snapshot().metadata["schemaString"])

    def features(self) -> set[str]:
        return set()

    def refusal(self) -> str | None:
        return refusal(self.properties(), self.schema_json())

    def files(self, version: int | None = None) -> list[TableFile]:
        return self._snapshot(version).files()

    def missing(self, parts: Sequence[Part]) -> list[str]:
        places = ((_local(self.path) / part.path, part.size) for part in parts)
        return [str(place) for place, size in places if not place.is_file() or place.stat().st_size != size]

    def last_transaction(self, app_id: str) -> int | None:
        return self._snapshot().last_transaction(app_id)

    def version_as_of(self, app_id: str, transaction: int) -> int:
        snapshot = self._snapshot()
        while (snapshot.last_transaction(app_id) or 0) > transaction:
            try:
                snapshot = self._snapshot(snapshot.version - 1)
            except FileNotFoundError as error:
                raise version_gone(self.path, transaction) from error
        return snapshot.version

    def shut_out(self, transactions: dict[str, int], *, by: str) -> None:
        snapshot = self._snapshot()
        older = {app: to for app, to in transactions.items() if (snapshot.last_transaction(app) or 0) < to}
        if older and not self._write(snapshot, [_transaction(*each) for each in older.items()], by):
            raise ChangedMeanwhile(f"{self.path} has a version after {snapshot.version}")

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
        snapshot = self._snapshot()
        _refuse_repeated(snapshot, transaction)
        actions = [] if transaction is None else [_transaction(*transaction)]
        actions += [_add(part, changes_rows) for part in parts]
        if remove is not None:
            gone = [file for file in snapshot.files() if remove(file)]
            if removes not in (None, len(gone)):
                raise ChangedMeanwhile(f"{len(gone)} of {removes} files to be replaced still exist")
            actions += [_remove(file, changes_rows) for file in gone]
        while not self._write(snapshot, actions, by):
            if remove is not None:
                raise ChangedMeanwhile(f"{self.path} has a version after {snapshot.version}")
            snapshot = self._snapshot()
            _refuse_repeated(snapshot, transaction)
        return snapshot.version + 1

    def _write(self, after: Snapshot | None, actions: Sequence[Action], by: str, operation: str = "WRITE") -> bool:
        """Writes the version after that one (None: the first), and a checkpoint if it is its turn; False: another
        commit has that version."""
        version = 0 if after is None else after.version + 1
        about = {"engineInfo": by, "operation": operation, "operationParameters": {}, "txnId": str(uuid.uuid4())}
        lines = [{"commitInfo": {"timestamp": _now_ms(), **about}}, *actions]
        if not self._store.write(self.path, version, "".join(f"{json.dumps(each)}\n" for each in lines)):
            return False
        if after is not None and version % int(after.properties.get("delta.checkpointInterval", 10)) == 0:
            # A checkpoint only saves time: without it the commit still counts.
            with suppress(OSError):
                self._store.write_checkpoint(self.path, self._snapshot(version))
        return True


@lru_cache(maxsize=256)
def _folded(entries: tuple[Entry, ...]) -> Snapshot:
    found = Snapshot(entries[-1].version, {}, {}, {}, {}, {})
    for action in (action for entry in entries for action in entry.actions):
        if add := action.get("add"):
            found.adds[add["path"]] = add
            found.removes.pop(add["path"], None)
        elif remove := action.get("remove"):
            found.adds.pop(remove["path"], None)
            found.removes[remove["path"]] = remove
        elif transaction := action.get("txn"):
            found.transactions[transaction["appId"]] = transaction
        elif about := action.get("metaData"):
            found = found._replace(metadata=about)
        elif protocol := action.get("protocol"):
            found = found._replace(protocol=protocol)
    return found


def _refuse_repeated(snapshot: Snapshot, transaction: tuple[str, int] | None) -> None:
    newest = None if transaction is None else snapshot.last_transaction(transaction[0])
    if transaction is not None and newest is not None and newest >= transaction[1]:
        raise AlreadyWritten(f"its newest is {newest}")


def _identity(file: Path) -> tuple[int, int, int, int]:
    """Numbers that another file of that name, or another content, does not have."""
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=16384)
def _commit(file: Path, *identity: int) -> Entry:
    return Entry(int(file.name[:20]), actions_in(file.read_text(encoding="utf-8"), str(file)))


def actions_in(text: str, of: str) -> list[Action]:
    """The actions of a commit. Raises KgroupsError for a text that is none."""
    try:
        return list(map(json.loads, text.splitlines()))
    except ValueError as error:
        raise KgroupsError(f"{of} is damaged ({error}): restore it") from error


@lru_cache(maxsize=256)
def _checkpoint(file: Path, *identity: int) -> Entry:
    columns = [name for name in pq.read_schema(file).names if name in CHECKPOINT.names]
    rows = pq.ParquetFile(file).read(columns).to_pylist(maps_as_pydicts="strict")
    return Entry(int(file.name[:20]), rows)


@lru_cache(maxsize=16384)
def _file(path: str, size: int, stats: str) -> TableFile:
    return TableFile(path, json.loads(stats), size)


def _add(part: Part, changes_rows: bool) -> Action:
    about = {"path": quote(part.path), "partitionValues": {}, "size": part.size, "modificationTime": _now_ms()}
    return {"add": {**about, "dataChange": changes_rows, "stats": part.stats_json}}


def _remove(file: TableFile, changes_rows: bool) -> Action:
    about = {"path": file.path, "deletionTimestamp": _now_ms(), "dataChange": changes_rows}
    return {"remove": {**about, "extendedFileMetadata": True, "partitionValues": {}, "size": file.size}}


def _transaction(app_id: str, version: int) -> Action:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": _now_ms()}}


def _now_ms() -> int:
    return int(time.time() * 1000)


def _local(uri: str) -> Path:
    return Path(uri.removeprefix("file:"))


# The columns of a checkpoint: `name:type`, or `name` of a text.
_TYPES = {"long": pa.int64(), "int": pa.int32(), "bool": pa.bool_(), "list": pa.list_(pa.string())}
_TYPES["texts"] = pa.map_(pa.string(), pa.string())


def _struct(columns: str) -> pa.DataType:
    pairs = (word.partition(":") for word in columns.split())
    return pa.struct([pa.field(name, _TYPES.get(kind, pa.string())) for name, _, kind in pairs])


_TYPES["format"] = _struct("provider options:texts")
_METADATA = "id name description format:format schemaString partitionColumns:list configuration:texts createdTime:long"
_FILE = "dataChange:bool partitionValues:texts path size:long"
CHECKPOINT = pa.schema(
    {
        "txn": _struct("appId version:long lastUpdated:long"),
        "add": _struct(f"{_FILE} modificationTime:long stats"),
        "remove": _struct(f"{_FILE} deletionTimestamp:long extendedFileMetadata:bool"),
        "metaData": _struct(_METADATA),
        "protocol": _struct("minReaderVersion:int minWriterVersion:int"),
    }
)
