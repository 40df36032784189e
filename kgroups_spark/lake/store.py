"""The store of a lake, and the logs of its Delta tables.

A table's log is a folder of numbered files, each with the actions of one commit as lines of JSON. A commit is made by
creating the file of the next number, which only one of two processes can do. Now and then a checkpoint, a Parquet file,
has all actions that still count, so that readers need no earlier file (Delta's PROTOCOL.md).

`TableLog` reads and writes logs; a `Store` has their files: local.py in folders of this machine, hadoop.py by Hadoop,
the tests in memory. `tests/protocol/test_stores.py` compares their answers and refusals, and those of another reader.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from kgroups_spark.errors import KgroupsError, spark_errors
from kgroups_spark.lake.last_finished import version_gone
from kgroups_spark.lake.parts import Part
from kgroups_spark.words import DAY_MS

Action = dict[str, Any]


class AlreadyWritten(Exception):
    """The table's log already has this transaction: nothing was committed."""


class ChangedMeanwhile(Exception):
    """Another process committed to the table between reading its files and replacing them: nothing was committed."""


class TableFile(NamedTuple):
    """A data file of a version of a table: its size in bytes; `stats` as in Delta's log, empty if the log has none."""

    path: str
    stats: dict[str, Any]
    size: int

    def bound(self, which: str, column: str) -> Any:
        """The least (`minValues`) or greatest (`maxValues`) value of the column in the file; None: unknown."""
        return self.stats.get(which, {}).get(column)

    def value_of(self, column: str) -> Any:
        """The value that all rows of the file have in the column; None: unknown, or there are several."""
        least, greatest, nulls = (self.bound(which, column) for which in ("minValues", "maxValues", "nullCount"))
        return least if least == greatest and nulls == 0 else None


TableFiles = Mapping[str, Sequence[TableFile]]  # by table


def total_rows(files: Iterable[TableFile]) -> int:
    return sum(int(file.stats["numRecords"]) for file in files)


Removal = Callable[[TableFile], bool]


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

    @property
    def features(self) -> set[str]:
        return set(self.protocol.get("readerFeatures") or ())

    @property
    def is_plain(self) -> bool:
        """Whether its protocol is that of our tables."""
        return bool(self.protocol.get("minReaderVersion", 1) <= 1 and self.protocol.get("minWriterVersion", 2) <= 2)

    def files(self) -> list[TableFile]:
        return [_file(path, add["size"], add.get("stats") or "{}") for path, add in self.adds.items()]

    def last_transaction(self, app_id: str) -> int | None:
        """The version that the application last committed under `app_id`; None: never."""
        found = self.transactions.get(app_id)
        return None if found is None else int(found["version"])

    def kept(self) -> Iterator[Action]:
        """The actions of a checkpoint. A removed file is named for a week (or the table's time), as VACUUM keeps it."""
        yield {"protocol": self.protocol}
        yield {"metaData": self.metadata}
        yield from ({"txn": each} for each in self.transactions.values())
        since = -1 if "delta.deletedFileRetentionDuration" in self.properties else _now_ms() - 7 * DAY_MS
        for remove in self.removes.values():
            if (remove.get("deletionTimestamp") or 0) > since:
                yield {"remove": remove | {"dataChange": False}}
        yield from ({"add": each | {"dataChange": False}} for each in self.adds.values())


class Store(ABC):
    """The folders of a lake's tables, and the files of their logs. A missing file raises FileNotFoundError."""

    # Features of tables whose logs can be read here; writing needs a table without any.
    features: Collection[str] = ()

    def at(self, uri: str) -> Store:
        return self

    def table(self, path: str) -> TableLog:
        return TableLog(self, path)

    @abstractmethod
    def qualified(self, location: str) -> str:
        """The location with its scheme; without one it is on Hadoop's default file system."""

    @abstractmethod
    def delete(self, file_or_folder: str) -> None:
        """Deletes a file, or a folder with its content; does nothing if it does not exist."""

    @abstractmethod
    def names_in(self, folder: str) -> list[str]:
        """The names of the folder's entries; empty if there is no such folder."""

    @abstractmethod
    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        """Size in bytes and time of the last change (epoch ms) of each file in the folder, by name."""

    @abstractmethod
    def fetch(self, uri: str, path: str) -> None:
        """Copies a file to a local path."""

    @abstractmethod
    def put(self, path: str, uri: str) -> None:
        """Copies a local file into the store."""

    @abstractmethod
    def size_of(self, uri: str) -> int:
        """The size of a file in bytes."""

    @abstractmethod
    def read_text(self, uri: str) -> str:
        """The text of a file."""

    @abstractmethod
    def write_text(self, uri: str, text: str, *, overwrite: bool) -> bool:
        """Writes a file as a whole, and its folders; False: it exists (not with `overwrite`)."""

    @abstractmethod
    def log_names(self, log: str, version: int | None) -> list[str]:
        """The names of a log's files, at least those from which this version (None: the newest) follows."""

    @abstractmethod
    def identity(self, uri: str) -> tuple[int, ...]:
        """Numbers that no other file or content of that name in a log has; as of the last `log_names`, or now."""

    def entries(self, path: str, version: int | None = None) -> tuple[Entry, ...]:
        """The newest checkpoint before a version (None: the newest) and the commits after it; empty: no table."""
        log = f"{path}/_delta_log"
        names = self.log_names(log, version)
        checkpoints = whole_checkpoints(names)
        commits = (int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name))
        last = max([*commits, *checkpoints], default=-1) if version is None else version
        start = max((each for each in checkpoints if each <= last), default=-1)
        found = [f"{log}/{name}" for name in checkpoints.get(start, ())]
        since = (f"{log}/{number:020d}.json" for number in range(start + 1, last + 1))
        return (
            *(_checkpoint(self, file, *self.identity(file)) for file in found),
            *(_commit(self, file, *self.identity(file)) for file in since),
        )

    def text(self, path: str, version: int) -> str:
        return self.read_text(f"{path}/_delta_log/{version:020d}.json")

    def write(self, path: str, version: int, text: str) -> bool:
        """Writes the commit; False: the version exists."""
        return self.write_text(f"{path}/_delta_log/{version:020d}.json", text, overwrite=False)

    def write_checkpoint(self, path: str, snapshot: Snapshot) -> None:
        log, rows = f"{path}/_delta_log", list(snapshot.kept())
        with TemporaryDirectory(prefix="kgroups-") as folder:
            file = f"{folder}/checkpoint.parquet"
            pq.write_table(pa.Table.from_pylist(rows, CHECKPOINT), file)
            self.put(file, f"{log}/{snapshot.version:020d}.checkpoint.parquet")
        about = json.dumps({"version": snapshot.version, "size": len(rows)})
        self.write_text(f"{log}/_last_checkpoint", about, overwrite=True)


class TableLog:
    """The log of one table; `path` is absolute and qualified, as Hadoop spells it (`file:/lake/groups`)."""

    def __init__(self, store: Store, path: str) -> None:
        self._store, self.path = store, path

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The version (None: the newest). Raises FileNotFoundError if it or the table is not there, KgroupsError for
        unknown features."""
        entries = self._store.entries(self.path, version)
        if not entries:
            raise FileNotFoundError(f"{self.path}: no table, or no such version of it")
        found = _folded(entries)
        if not (found.is_plain or (self._store.features and found.features <= {*self._store.features})):
            raise KgroupsError(
                f"{self.path} has features of Delta that are not read here ({found.protocol}): use --engine spark, or "
                "drop them (ALTER TABLE ... DROP FEATURE)"
            )
        return found

    def exists(self) -> bool:
        return bool(self._store.entries(self.path))

    def create(self, schema_json: str, comment: str, properties: dict[str, str]) -> None:
        """Writes version 0 with the schema, as Spark's CREATE TABLE does; nothing if another process just did."""
        if not self.exists():
            self._write(None, [PROTOCOL, metadata(schema_json, comment, properties)], "kgroups-spark", "CREATE TABLE")

    def entry(self, version: int) -> str | None:
        """The log's entry of that version, as text; None: there is none."""
        with suppress(FileNotFoundError):
            return self._store.text(self.path, version)
        return None

    def refusal(self) -> str | None:
        """Why the table cannot take a plain Parquet file, or lose one, as a sentence's end; None: it can."""
        found = self.snapshot()
        if found.properties.get("delta.appendOnly", "false").lower() == "true":
            return "has delta.appendOnly"
        return None if found.is_plain else f"has features of Delta ({found.protocol})"

    def files(self, version: int | None = None) -> list[TableFile]:
        return self.snapshot(version).files()

    def missing(self, parts: Sequence[Part]) -> list[str]:
        """A text for each part that the driver does not see, or sees with another size."""
        missing = []
        for part in parts:
            uri = f"{self.path}/{part.path}"
            try:
                size = self._store.size_of(uri)
                if size != part.size:
                    missing.append(f"{uri}: {size} bytes, not {part.size}")
            except OSError:
                missing.append(f"{uri}: there is no such file")
        return missing

    def version_as_of(self, app_id: str, transaction: int) -> int:
        """The newest version without a later transaction of the application. Raises KgroupsError if it is gone."""
        snapshot = self.snapshot()
        while (snapshot.last_transaction(app_id) or 0) > transaction:
            try:
                snapshot = self.snapshot(snapshot.version - 1)
            except FileNotFoundError as error:
                raise version_gone(self.path, transaction) from error
        return snapshot.version

    def shut_out(self, transactions: dict[str, int], *, by: str) -> None:
        """Commits this transaction version of each application, unless it has that one or a later one; all in one
        commit, or in none if there is nothing to do. Raises ChangedMeanwhile if another process has just committed."""
        snapshot = self.snapshot()
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
        """Commits one transaction that adds the parts and removes the files that `remove` chooses; returns its version.

        `by` is in the commit info. `removes`: the number of files that must be there to remove (None: any number).
        `changes_rows=False`: the same rows are only in other files (Delta's dataChange), so a stream on the table sees
        nothing. Raises AlreadyWritten if the application has committed this transaction version or a later one,
        ChangedMeanwhile if files had to be removed and another process committed meanwhile, KgroupsError for a part
        that is not there as written.
        """
        if missing := self.missing(parts):
            raise KgroupsError(
                f"{len(missing)} of {len(parts)} parts that tasks wrote are not there as written ({missing[0]}); "
                "nothing of it was committed: look at the storage"
            )
        snapshot = self.snapshot()
        _refuse_repeated(snapshot, transaction)
        actions = [] if transaction is None else [_transaction(*transaction)]
        about = {"partitionValues": {}, "modificationTime": _now_ms(), "dataChange": changes_rows}
        files = ({"path": quote(part.path), "size": part.size, "stats": part.stats_json} for part in parts)
        actions += [{"add": file | about} for file in files]
        if remove is not None:
            gone = [file for file in snapshot.files() if remove(file)]
            if removes not in (None, len(gone)):
                raise ChangedMeanwhile(f"{len(gone)} of {removes} files to be replaced still exist")
            actions += [_remove(file, changes_rows) for file in gone]
        while not self._write(snapshot, actions, by):
            if remove is not None:
                raise ChangedMeanwhile(f"{self.path} has a version after {snapshot.version}")
            snapshot = self.snapshot()
            _refuse_repeated(snapshot, transaction)
        return snapshot.version + 1

    def _write(self, after: Snapshot | None, actions: Sequence[Action], by: str, operation: str = "WRITE") -> bool:
        """Writes the next version, and a checkpoint if it is its turn; False: another commit has that version."""
        version = 0 if after is None else after.version + 1
        about = {"engineInfo": by, "operation": operation, "operationParameters": {}, "txnId": str(uuid.uuid4())}
        lines = [{"commitInfo": {"timestamp": _now_ms(), **about}}, *actions]
        if not self._store.write(self.path, version, "".join(f"{json.dumps(each)}\n" for each in lines)):
            return False
        if after is not None and version % int(after.properties.get("delta.checkpointInterval", 10)) == 0:
            # A checkpoint only saves time: without it the commit still counts.
            with suppress(OSError, *spark_errors()):
                self._store.write_checkpoint(self.path, self.snapshot(version))
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
    if transaction is not None and (newest := snapshot.last_transaction(transaction[0]) or 0) >= transaction[1]:
        raise AlreadyWritten(f"its newest is {newest}")


@lru_cache(maxsize=16384)
def _commit(store: Store, file: str, *identity: int) -> Entry:
    return Entry(_version_of(file), actions_in(store.read_text(file), file))


def _version_of(file: str) -> int:
    return int(file.rpartition("/")[2][:20])


def actions_in(text: str, of: str) -> list[Action]:
    """The actions of a commit. Raises KgroupsError for a text that is none."""
    try:
        return list(map(json.loads, text.splitlines()))
    except ValueError as error:
        raise KgroupsError(f"{of} is damaged ({error}): restore it") from error


@lru_cache(maxsize=256)
def _checkpoint(store: Store, file: str, *identity: int) -> Entry:
    with TemporaryDirectory(prefix="kgroups-") as folder:
        store.fetch(file, copy := str(Path(folder, "checkpoint.parquet")))
        try:
            rows = pq.ParquetFile(copy).read(CHECKPOINT.names).to_pylist(maps_as_pydicts="strict")
        except (OSError, ValueError) as error:
            raise KgroupsError(f"{file} is damaged ({str(error).strip()}): restore it") from error
    return Entry(_version_of(file), rows)


@lru_cache(maxsize=16384)
def _file(path: str, size: int, stats: str) -> TableFile:
    return TableFile(path, json.loads(stats), size)


def _remove(file: TableFile, changes_rows: bool) -> Action:
    about = {"path": file.path, "deletionTimestamp": _now_ms(), "dataChange": changes_rows}
    return {"remove": {**about, "extendedFileMetadata": True, "partitionValues": {}, "size": file.size}}


def _transaction(app_id: str, version: int) -> Action:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": _now_ms()}}


def _now_ms() -> int:
    return int(time.time() * 1000)


PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def metadata(schema_json: str, comment: str, properties: dict[str, str]) -> dict[str, Any]:
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "description": comment,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_json,
            "partitionColumns": [],
            "configuration": properties,
            "createdTime": _now_ms(),
        }
    }


_CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint\.(?:\d{10}\.(?P<parts>\d{10})\.)?parquet")


def whole_checkpoints(names: Iterable[str]) -> dict[int, list[str]]:
    """The versions with a complete checkpoint, and its files, of these files of a log."""
    found: dict[tuple[int, int], list[str]] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, names)):
        found.setdefault((int(match["version"]), int(match["parts"] or 1)), []).append(match[0])
    return {version: files for (version, expected), files in found.items() if len(files) == expected}


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
