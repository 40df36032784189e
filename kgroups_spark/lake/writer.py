"""Writing to the lake, by one of two writers with the same result.

`parts`: tasks write Parquet by pyarrow (parts_writer.py), and the driver commits it by Delta Kernel (kernel.py).
`spark`: Spark's own Delta writer. It works wherever Delta does, and costs several times as much.

Either way, one transaction of one audit writes a table. A second commit with the same audit number is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.fence import Fence, Transaction, named_if_lost, until_nobody_interferes
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import APP_ID
from kgroups_spark.lake.parts_writer import Part, PartWriter
from kgroups_spark.lake.saved_states import is_of_night, may_be_of
from kgroups_spark.lake.store import AlreadyWritten, Removal, TableFile
from kgroups_spark.lake.writer_choice import WriterName
from kgroups_spark.runner import frame_of
from kgroups_spark.tables.internal import NIGHT
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES


@dataclass(frozen=True)
class LakeWriter:
    """Writes the tables for one audit; `check_claim` is called before each commit and raises if the claim is lost.

    `app_id`: the application id; it allows one commit for each table and audit.
    """

    lake: Lake
    audit_id: int
    name: WriterName
    check_claim: Callable[[], None]
    app_id: str = APP_ID

    def append(self, table: str, rows: DataFrame) -> None:
        """Adds the rows of a frame, by Spark."""
        self._commit(table, "append", partial(self._write_by_spark, table, rows, self.lake.place.append))

    def append_table(self, table: str, rows: pa.Table) -> None:
        """Appends rows that the driver has in memory; no commit without rows."""
        if self.name == "parts":
            part = self.part_writer(table).write(rows)
            self.append_parts(table, [part] if part else [])
        elif rows.num_rows:
            self.append(table, frame_of(self.lake.spark, rows, TABLES[table].schema))

    def replace_table(self, table: str, rows: pa.Table) -> None:
        """Replaces the table's rows by rows that the driver has in memory; an empty table and no rows: no commit."""
        if self.name == "parts":
            part = self.part_writer(table).write(rows)
            self.replace_parts(table, [part] if part else [])
        elif rows.num_rows or self.lake.table(table).files():
            self.replace(table, frame_of(self.lake.spark, rows, TABLES[table].schema))

    def replace(self, table: str, rows: DataFrame, keep_audit: int | None = None) -> None:
        """Replaces the table's rows by those of a frame, by Spark, in one commit. Rows of `keep_audit` stay, and so do
        rows of checkpoints that are not a night's state."""
        where = None if keep_audit is None else f"audit_id <> {keep_audit}"
        if table == CHECKPOINTS:
            where = " AND ".join(filter(None, (f"reason = '{NIGHT}'", where)))
            where = f"audit_id = {self.audit_id} OR ({where})"
        replace = partial(self.lake.place.replace, where=where)
        self._commit(table, "replace", partial(self._write_by_spark, table, rows, replace))

    def replace_others(self, table: str, rows: DataFrame, where: str) -> None:
        """Replaces the rows that meet the SQL condition, of any audit, by Spark, in one commit. Delta refuses it once
        another audit has taken over."""

        def write(transaction: Transaction) -> None:
            app_id, version = transaction
            options = {"txnAppId": app_id, "txnVersion": str(version), "userMetadata": _by(self.audit_id)}
            self.lake.place.replace(table, rows, options, where=where)

        self.fence.commit(table, "replace", write)

    @property
    def fence(self) -> Fence:
        """The fence for changes to rows of other audits."""
        return Fence(self.lake, self.audit_id, self.check_claim)

    def part_writer(self, table: str) -> PartWriter:
        """The settings with which tasks write the table's parts."""
        return PartWriter(table, self.lake.uri, self.audit_id)

    def append_parts(self, table: str, parts: Sequence[Part]) -> None:
        """Appends the rows of parts that tasks have written; no commit without parts."""
        if parts:
            self._commit_parts(table, "append", parts, None)

    def replace_parts(self, table: str, parts: Sequence[Part], keep_audit: int | None = None) -> None:
        """Replaces the table's rows by the parts'. Rows of `keep_audit` stay, and so do rows of checkpoints that are
        not a night's state. An empty table and no parts: no commit."""
        if not parts and not self.lake.table(table).files():
            return
        self._commit_parts(table, "replace", parts, partial(_goes, table, keep_audit))

    def _commit_parts(self, table: str, operation: str, parts: Sequence[Part], remove: Removal | None) -> None:
        log = self.lake.table(table)
        missing = log.missing(parts)
        if missing:
            raise KgroupsError(
                f"table {table}: {len(missing)} of {len(parts)} parts that tasks wrote are not there as written "
                f"({missing[0]}); nothing of it was committed: look at the storage, or take --writer spark"
            )
        write = partial(
            log.commit, parts, by=_by(self.audit_id), transaction=(self.app_id, self.audit_id), remove=remove
        )
        self._commit(table, operation, partial(until_nobody_interferes, write))

    def _write_by_spark(self, table: str, rows: DataFrame, write: Callable[..., None]) -> None:
        newest = self.lake.table(table).last_transaction(self.app_id)
        if newest is not None and newest >= self.audit_id:
            # Delta's writer silently drops a repeated transaction.
            raise AlreadyWritten(f"its newest is {newest}")
        columns = TABLES[table].schema.names
        given = set(rows.columns)
        if given != set(columns):
            raise ValueError(f"rows for table {table}: {sorted(given.symmetric_difference(columns))} differ")
        options = {"txnAppId": self.app_id, "txnVersion": str(self.audit_id), "userMetadata": _by(self.audit_id)}
        write(table, rows.select(*columns), options)

    def _commit(self, table: str, operation: str, write: Callable[[], object]) -> None:
        try:
            with named_if_lost(self.check_claim):
                self.lake.commit(table, operation, write)
        except AlreadyWritten as refused:
            raise KgroupsError(
                f"table {table} was written by audit {self.audit_id} or a later one before ({refused}): nothing added"
            ) from refused


def _by(audit_id: int) -> str:
    """The entry of a commit in the tables' own history."""
    return f"kgroups-spark audit {audit_id}"


def _goes(table: str, keep_audit: int | None, file: TableFile) -> bool:
    is_kept = keep_audit is not None and may_be_of(keep_audit, file)
    return not is_kept and (table != CHECKPOINTS or is_of_night(file))
