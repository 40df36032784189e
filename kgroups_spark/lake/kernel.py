"""A Delta table at a path through Delta Kernel, a part of Delta's jars: reading its log, and committing to it.

Kernel reads and writes a table's log without Spark jobs. A commit takes 0.06 CPU seconds; Spark's writer takes 0.5
(append) or 1.5 (overwrite). Calls go through py4j into the driver's JVM.

The files added here are plain Parquet. `refusal` names properties of a table that forbid that: with column mapping, for
example, such a commit succeeds, and reads fail afterwards.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.hadoop_storage import JavaClasses, dict_of, items_of, name_for_hadoop, use_hadoops_storage
from kgroups_spark.lake.last_finished import version_gone
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.store import AlreadyWritten, ChangedMeanwhile, Removal, Store, TableFile, TableLog
from kgroups_spark.sources.files import create_local
from kgroups_spark.spark.session import DELTA_JAR

# Kernel throws these if another commit took the version: without retries, or on a conflict that no retry solves.
LOST_THE_RACE = ("MaxCommitRetryLimitReachedException", "ConcurrentWriteException")

# One commit of this process at a time: on a local disk Hadoop checks whether a version exists, and then renames its own
# file to it. So a heartbeat could overwrite a row of the ledger.
COMMITTING = threading.RLock()


DEFAULT_ENGINE = "io.delta.kernel.defaults.engine.DefaultEngine"


class Kernel(Store):
    """Delta Kernel in the driver's JVM, for all tables of a lake. Raises KgroupsError without Delta's jars, and for a
    session of Spark Connect."""

    def __init__(self, spark: SparkSession) -> None:
        use_hadoops_storage(spark)
        jvm: Any = spark._jvm
        self.java = JavaClasses(jvm)
        self.hadoop: Any = spark._jsc.hadoopConfiguration()
        if not self.java.has(DEFAULT_ENGINE):
            raise KgroupsError(f"Delta is not on Spark's class path: spark-submit --packages {DELTA_JAR} puts it there")
        self.engine: Any = self.java(DEFAULT_ENGINE).create(self.hadoop)
        # With spark-submit's default logging, Kernel would log a warning at each read of a log without a checkpoint.
        level = self.java("org.apache.logging.log4j.Level").ERROR
        self.java("org.apache.logging.log4j.core.config.Configurator").setLevel("io.delta.kernel", level)

    def table(self, path: str) -> KernelTable:
        return KernelTable(self, path)

    def qualified(self, location: str) -> str:
        on_this_machine = "://" not in location and self.hadoop.get("fs.defaultFS", "file:///").startswith("file:")
        if on_this_machine:
            return f"file:{Path(location.removeprefix('file:')).resolve()}"
        path = self.java_path(name_for_hadoop(location, self.java, self.hadoop))
        return str(path.getFileSystem(self.hadoop).makeQualified(path).toString()).rstrip("/")

    def java_path(self, *parts: str) -> Any:
        return self.java("org.apache.hadoop.fs.Path")(*parts)

    def delete(self, file_or_folder: str) -> None:
        path = self.java_path(file_or_folder)
        path.getFileSystem(self.hadoop).delete(path, True)

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        path = self.java_path(folder)
        found = path.getFileSystem(self.hadoop).listStatus(path)
        files = (each for each in found if each.isFile())
        return {each.getPath().getName(): (each.getLen(), each.getModificationTime()) for each in files}

    def names_in(self, folder: str) -> list[str]:
        path = self.java_path(folder)
        file_system = path.getFileSystem(self.hadoop)
        if not file_system.exists(path):
            return []
        return [status.getPath().getName() for status in file_system.listStatus(path)]

    def fetch(self, uri: str, path: str) -> None:
        source = self.java_path(uri)
        source.getFileSystem(self.hadoop).copyToLocalFile(False, source, self.java_path(f"file://{path}"), True)

    def put(self, path: str, uri: str) -> None:
        target = self.java_path(uri)
        target.getFileSystem(self.hadoop).copyFromLocalFile(False, True, self.java_path(f"file://{path}"), target)

    @contextmanager
    def telling_on_stderr(self) -> Iterator[None]:
        console = self.java("scala.Console$").__getattr__("MODULE$")
        out = console.out()
        console.setOutDirect(self.java("java.lang.System").err)
        try:
            yield
        finally:
            console.setOutDirect(out)


class KernelTable(TableLog):
    """One table's log through Kernel."""

    def __init__(self, kernel: Kernel, path: str) -> None:
        self._kernel = kernel
        self._engine = kernel.engine
        self._java = kernel.java
        self.path = path

    def _api(self, name: str) -> Any:
        return self._java(f"io.delta.kernel.{name}")

    def create(self, schema_json: str, comment: str, properties: dict[str, str]) -> None:
        # Kernel's own builder keeps no table comment. Spark's SQL costs 0.15 CPU seconds a table (7 in a cold session).
        self._write_version(0, [PROTOCOL, _metadata(schema_json, comment, properties)], "CREATE TABLE")

    def _write_version(self, version: int, actions: list[dict[str, Any]], operation: str) -> bool:
        """Writes this version of the log; False: another commit already has that version."""
        now_ms = int(time.time() * 1000)
        commit_info = {"timestamp": now_ms, "operation": operation, "operationParameters": {}}
        lines = [json.dumps(action) for action in ({"commitInfo": commit_info}, *actions)]
        if self.path.startswith("file:"):
            # Without its native library, Hadoop's LogStore starts ten processes (chmod, readlink) to write a local
            # file.
            with suppress(OSError):
                return create_local(self._entry_name(version), "".join(f"{line}\n" for line in lines))
        return self._write_by_log_store(version, lines)

    def _write_by_log_store(self, version: int, lines: list[str]) -> bool:
        path, hadoop = self._entry_path(version), self._kernel.hadoop
        file_system = path.getFileSystem(hadoop)
        file_system.mkdirs(path.getParent())
        java_lines = self._java("java.util.ArrayList")(lines)
        provider = self._api("defaults.internal.logstore.LogStoreProvider")
        try:
            provider.getLogStore(hadoop, file_system.getScheme()).write(path, java_lines.iterator(), False, hadoop)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in _java_class(error):
                raise
            return False
        return True

    def exists(self) -> bool:
        try:
            self._snapshot()
        except Py4JJavaError as error:
            if "TableNotFoundException" in _java_class(error):
                return False
            raise
        return True

    def version(self) -> int:
        return int(self._snapshot().getVersion())

    def entry(self, version: int) -> str | None:
        path = self._entry_path(version)
        try:
            stream = path.getFileSystem(self._kernel.hadoop).open(path)
        except Py4JJavaError as error:
            if "FileNotFoundException" in _java_class(error):
                return None
            raise
        try:
            return str(self._java("org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _entry_path(self, version: int) -> Any:
        return self._kernel.java_path(self._entry_name(version))

    def _entry_name(self, version: int) -> str:
        return f"{self.path}/_delta_log/{version:020d}.json"

    def properties(self) -> dict[str, str]:
        return dict_of(self._snapshot().getMetadata().getConfiguration())

    def schema_json(self) -> str:
        return str(self._snapshot().getMetadata().getSchemaString())

    def features(self) -> set[str]:
        return set(items_of(self._snapshot().getProtocol().getReaderFeatures()))

    def shut_out(self, transactions: dict[str, int], *, by: str) -> None:
        snapshot = self._snapshot()
        older = {app: to for app, to in transactions.items() if (self._last_transaction(snapshot, app) or 0) < to}
        if not older:
            return
        actions, none = list[Any](), self._java("java.util.Optional").empty()
        for app_id, version in older.items():
            row = self._api("internal.actions.SetTransaction")(app_id, version, none).toRow()
            actions.append(self._api("internal.actions.SingleAction").createTxnSingleAction(row))
        # Kernel resolves conflicts only by the transaction identifier. The snapshot must still be the newest: no
        # retries.
        builder = self._table().createTransactionBuilder(self._engine, by, self._api("Operation").valueOf("WRITE"))
        delta_transaction = builder.withMaxRetries(0).build(self._engine)
        if int(delta_transaction.getReadTableVersion()) != int(snapshot.getVersion()):
            raise ChangedMeanwhile(f"{self.path} has a version after {snapshot.getVersion()}")
        with self._refusals("", loses_races=True):
            delta_transaction.commit(self._engine, self._iterable(actions))

    @contextmanager
    def _refusals(self, app_id: str, *, loses_races: bool = False) -> Iterator[None]:
        """Within the block, turns Kernel's refusals of a commit into AlreadyWritten and ChangedMeanwhile."""
        try:
            yield
        except Py4JJavaError as error:
            if "ConcurrentTransactionException" in _java_class(error):
                raise AlreadyWritten(f"its newest is {self.last_transaction(app_id)}") from error
            if loses_races and _java_class(error).endswith(LOST_THE_RACE):
                raise ChangedMeanwhile(str(error.java_exception.getMessage())) from error
            raise

    def last_transaction(self, app_id: str) -> int | None:
        return self._last_transaction(self._snapshot(), app_id)

    def version_as_of(self, app_id: str, transaction: int) -> int:
        snapshot = self._snapshot()
        while (self._last_transaction(snapshot, app_id) or 0) > transaction:
            try:
                snapshot = self._snapshot(snapshot.getVersion() - 1)
            except Py4JJavaError as error:
                raise version_gone(self.path, transaction) from error
        return int(snapshot.getVersion())

    def _last_transaction(self, snapshot: Any, app_id: str) -> int | None:
        found = snapshot.getLatestTransactionVersion(self._engine, app_id)
        return int(found.get()) if found.isPresent() else None

    def refusal(self) -> str | None:
        metadata = self._snapshot().getMetadata()
        return refusal(dict_of(metadata.getConfiguration()), metadata.getSchemaString())

    def files(self, version: int | None = None) -> list[TableFile]:
        return list(self._files(self._snapshot(version)))

    def missing(self, parts: Sequence[Part]) -> list[str]:
        return [found for part in parts if (found := self._missing(part)) is not None]

    def _missing(self, part: Part) -> str | None:
        path = self._kernel.java_path(self.path, part.path)
        try:
            size = path.getFileSystem(self._kernel.hadoop).getFileStatus(path).getLen()
        except Py4JJavaError as error:
            return f"{path.toString()}: {_java_class(error)}"
        return None if size == part.size else f"{path.toString()}: {size} bytes, not {part.size}"

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
        with self._refusals(transaction[0] if transaction else "", loses_races=remove is not None), COMMITTING:
            return self._commit(parts, by, transaction, remove, removes, changes_rows)

    def _commit(
        self,
        parts: Sequence[Part],
        by: str,
        transaction: tuple[str, int] | None,
        remove: Removal | None,
        removes: int | None,
        changes_rows: bool,
    ) -> int:
        engine = self._engine
        builder = self._table().createTransactionBuilder(engine, by, self._api("Operation").valueOf("WRITE"))
        if transaction is not None:
            builder = builder.withTransactionId(engine, *transaction)
        if remove is not None:
            # The files to remove were chosen at the version read, so any commit in between must make this one fail.
            builder = builder.withMaxRetries(0)
        delta_transaction = builder.build(engine)
        actions = self._append_actions(delta_transaction, parts, changes_rows)
        if remove is not None:
            read = self._snapshot(delta_transaction.getReadTableVersion())
            removals = self._removals(read, remove, changes_rows)
            if removes is not None and len(removals) != removes:
                raise ChangedMeanwhile(f"{len(removals)} of {removes} files to be replaced still exist")
            actions += removals
        result = delta_transaction.commit(engine, self._iterable(actions))
        for hook in items_of(result.getPostCommitHooks()):
            # Kernel leaves the checkpoints of delta.checkpointInterval to its caller.
            if hook.getType().name() == "CHECKPOINT":
                # A checkpoint only saves time: without it the commit still counts, as in Spark's own writer.
                with suppress(Py4JJavaError, PySparkException):
                    self._snapshot().writeCheckpoint(engine)
        return int(result.getVersion())

    def _append_actions(self, delta_transaction: Any, parts: Sequence[Part], changes_rows: bool) -> list[Any]:
        # As Transaction.generateAppendActions, which always sets dataChange to true.
        schema = delta_transaction.getSchema(self._engine)
        folder = self._api("internal.fs.Path")(self.path).toUri()
        nothing, none = self._java("java.util.HashMap")(), self._java("java.util.Optional").empty()
        now_ms, actions = int(time.time() * 1000), list[Any]()
        single_action = self._api("internal.actions.SingleAction")
        for part in parts:
            stats = self._api("statistics.DataFileStatistics").deserializeFromJson(part.stats_json, schema)
            status = self._api("utils.DataFileStatus")(f"{self.path}/{part.path}", part.size, now_ms, stats)
            add = self._api("internal.actions.AddFile").convertDataFileStatus(
                schema, folder, status, nothing, changes_rows, nothing, none, none, none
            )
            actions.append(single_action.createAddFileSingleAction(add.toRow()))
        return actions

    def _removals(self, snapshot: Any, remove: Removal, changes_rows: bool) -> list[Any]:
        now = self._java("java.util.Optional").empty()
        rows = [file.add_action.toRemoveFileRow(changes_rows, now) for file in self._files(snapshot) if remove(file)]
        return [self._api("internal.actions.SingleAction").createRemoveFileSingleAction(row) for row in rows]

    def _files(self, snapshot: Any) -> Iterator[TableFile]:
        batches = snapshot.getScanBuilder().build().getScanFiles(self._engine, True)
        rows = self._api("internal.util.Utils").intoRows(batches)
        try:
            while rows.hasNext():
                add = self._api("internal.actions.AddFile")(rows.next().getStruct(0))
                stats = add.getStatsJson()
                stats = json.loads(stats.get()) if stats.isPresent() else {}
                yield TableFile(add.getPath(), stats, int(add.getSize()), add)
        finally:
            rows.close()

    def _iterable(self, actions: list[Any]) -> Any:
        java_list = self._java("java.util.ArrayList")(actions)
        rows = self._api("internal.util.Utils").toCloseableIterator(java_list.iterator())
        return self._api("utils.CloseableIterable").inMemoryIterable(rows)

    def _table(self) -> Any:
        return self._api("Table").forPath(self._engine, self.path)

    def _snapshot(self, version: int | None = None) -> Any:
        if version is None:
            return self._table().getLatestSnapshot(self._engine)
        return self._table().getSnapshotAsOfVersion(self._engine, version)


PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def _metadata(schema_json: str, comment: str, properties: dict[str, str]) -> dict[str, Any]:
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "description": comment,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_json,
            "partitionColumns": [],
            "configuration": properties,
            "createdTime": int(time.time() * 1000),
        }
    }


def refusal(properties: dict[str, str], schema_json: str) -> str | None:
    """The reason why a table with these properties and columns cannot take a plain Parquet file; None: it can."""
    if properties.get("delta.columnMapping.mode", "none") != "none":
        return "has column mapping"
    if any(name.startswith("delta.constraints.") for name in properties):
        return "has check constraints"
    for feature in ("delta.enableRowTracking", "delta.enableDeletionVectors", "delta.appendOnly"):
        if properties.get(feature, "false").lower() == "true":
            return f"has {feature}"
    for column in json.loads(schema_json)["fields"]:
        special = SPECIAL_COLUMNS.intersection(column["metadata"])
        if special:
            return f"has a column {column['name']} with {min(special)}"
    return None


SPECIAL_COLUMNS = {"delta.generationExpression", "delta.identity.start", "delta.invariants", "CURRENT_DEFAULT"}


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())
