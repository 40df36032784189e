"""Delta Kernel, a part of Delta's jars, as a referee of the package's own reading and writing of Delta's logs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kgroups_spark.lake.hadoop import Hadoop, dict_of, items_of
from kgroups_spark.lake.last_finished import version_gone
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.store import (
    PROTOCOL,
    AlreadyWritten,
    ChangedMeanwhile,
    Removal,
    TableFile,
    metadata,
    refusal,
)
from kgroups_spark.sources.files import create_local

# Kernel throws these if another commit took the version: without retries, or on a conflict that no retry solves.
LOST_THE_RACE = ("MaxCommitRetryLimitReachedException", "ConcurrentWriteException")

# One commit of this process at a time: on a local disk Hadoop checks whether a version exists, and then renames its own
# file to it. So a heartbeat could overwrite a row of the ledger.
COMMITTING = threading.RLock()


class Kernel(Hadoop):
    """Delta Kernel in the driver's JVM, for all tables of a lake."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.engine: Any = self.java("io.delta.kernel.defaults.engine.DefaultEngine").create(self.hadoop)

    def table(self, path: str) -> KernelTable:  # type: ignore[override]
        return KernelTable(self, path)


@dataclass(frozen=True)
class KernelFile(TableFile):
    add_action: Any = None


class KernelTable:
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
        self._write_version(0, [PROTOCOL, metadata(schema_json, comment, properties)], "CREATE TABLE")

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
        missing = []
        for part in parts:
            path = self._kernel.java_path(self.path, part.path)
            try:
                size = path.getFileSystem(self._kernel.hadoop).getFileStatus(path).getLen()
                if size != part.size:
                    missing.append(f"{path.toString()}: {size} bytes, not {part.size}")
            except Py4JJavaError as error:
                missing.append(f"{path.toString()}: {_java_class(error)}")
        return missing

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
        engine = self._engine
        with self._refusals(transaction[0] if transaction else "", loses_races=remove is not None), COMMITTING:
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

    def _files(self, snapshot: Any) -> Iterator[KernelFile]:
        batches = snapshot.getScanBuilder().build().getScanFiles(self._engine, True)
        rows = self._api("internal.util.Utils").intoRows(batches)
        try:
            while rows.hasNext():
                add = self._api("internal.actions.AddFile")(rows.next().getStruct(0))
                stats = add.getStatsJson()
                stats = json.loads(stats.get()) if stats.isPresent() else {}
                yield KernelFile(add.getPath(), stats, int(add.getSize()), add)
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


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


# Hadoop's settings of S3 for pyarrow, and the spelling of an S3 location that Hadoop understands.

# Java classes and collections through py4j, without py4j's usual cost.
#
# For every step of a dotted name py4j asks the JVM whether it is a class, and the JVM looks for each name that is none
# in all of Spark's some three hundred jars. An iteration over a Java collection ends with a Java exception, which
# PySpark translates with thirty such names. Together that was nearly half of a small night.
