"""Writing to the lake: tasks write Parquet by pyarrow (parts_writer.py), and the driver commits it by Delta Kernel.

One transaction of one audit writes a table. A second commit with the same audit number is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.fence import Fence, named_if_lost, until_nobody_interferes
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import APP_ID
from kgroups_spark.lake.parts_writer import Part, PartWriter
from kgroups_spark.lake.saved_states import is_of_night, may_be_of
from kgroups_spark.lake.store import AlreadyWritten, Removal, TableFile
from kgroups_spark.tables.schemas import CHECKPOINTS


@dataclass(frozen=True)
class LakeWriter:
    """Writes the tables for one audit; `check_claim` is called before each commit and raises if the claim is lost.

    `app_id`: the application id; it allows one commit for each table and audit.
    """

    lake: Lake
    audit_id: int
    check_claim: Callable[[], None]
    app_id: str = APP_ID
    # The newest audit in each table's log, for the ledger: at first as the last finished audit recorded it. Without
    # checkpoints: an audit that finds an older state there rebuilds it (saved_state.py).
    newest_audits: dict[str, int] = field(default_factory=dict)

    def append_table(self, table: str, rows: pa.Table) -> None:
        """Appends rows that the driver has in memory; no commit without rows."""
        part = self.lake.write(table, [rows], self.audit_id)
        self.append_parts(table, [part] if part else [])

    def replace_table(self, table: str, rows: pa.Table) -> None:
        """Replaces the table's rows by rows that the driver has in memory; an empty table and no rows: no commit."""
        part = self.lake.write(table, [rows], self.audit_id)
        self.replace_parts(table, [part] if part else [])

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
                f"({missing[0]}); nothing of it was committed: look at the storage"
            )
        write = partial(
            log.commit, parts, by=_by(self.audit_id), transaction=(self.app_id, self.audit_id), remove=remove
        )
        self._commit(table, operation, partial(until_nobody_interferes, write))
        if table != CHECKPOINTS:
            self.newest_audits[table] = self.audit_id

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
