"""The lake as one finished audit left it, without the rows that later audits have written.

Every table's log has the newest audit that wrote to it. The tables of an audit are at their newest versions without a
commit of a later audit. So readers never see half an audit, whether it rewrote a table, appended to it or deleted rows
of an unfinished audit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.errors import spark_errors
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import (
    APP_IDS,
    FINISHED,
    IS_FINISHED,
    LEDGER_APP_ID,
    claim_lost,
    is_lost,
    ledger_end_empty,
    ledger_lost,
    newest_audit,
    table_lost,
    version_lost,
)
from kgroups_spark.lake.replaced import COLUMN, NOTHING, REPLACEABLE, Replaced
from kgroups_spark.lake.store import whole_checkpoints
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import DAY_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class LakeAsOfAudit:
    """The tables as audit `audit_id` left them (0: before the first). `ledger_version` None: the newest."""

    lake: Lake
    audit_id: int
    ledger_version: int | None = None

    @classmethod
    def last_finished(cls, lake: Lake) -> LakeAsOfAudit:
        """The lake as of its last finished audit. Raises KgroupsError if the ledger's newest file is empty."""
        log = lake.table("audits")
        version = log.snapshot().version
        if log.entry(version) == "":
            raise ledger_end_empty(lake.location, version)
        newest = lake.ledgers_end(version, ["audit_id", "status"])
        ends = newest.filter(pc.field("status") == FINISHED)["audit_id"]
        return cls(lake, pc.max(ends).as_py() or 0, version)

    @cached_property
    def _reported(self) -> dict[str, Any]:
        """The audit's row of the ledger: the newest audit in each table, and the rows of history that it left out."""
        conditions = [Condition("audit_id", "==", self.audit_id), IS_FINISHED]
        columns = [COLUMN, "newest_audits"]
        found = self.lake.rows("audits", self.ledger_version, columns=columns, conditions=conditions)
        return next(iter(found.to_pylist(maps_as_pydicts="strict")), dict.fromkeys(columns))

    @cached_property
    def replaced(self) -> Replaced:
        return Replaced.of(self._reported[COLUMN])

    def version(self, name: str) -> int | None:
        """The table's version; None: the newest, or the lake's layout does not have the table. Raises KgroupsError for
        a table that is gone or whose log has lost the audit's rows, and for one with rows of an audit that the ledger
        has lost."""
        if name == "audits":
            return self.ledger_version
        log, audits = self.lake.table(name), self.lake.table("audits")
        try:
            now = log.snapshot()
        except (*spark_errors(), FileNotFoundError) as error:
            if self.lake.place.has(name):
                raise
            raise table_lost(self.lake.location, name) from error
        newest = newest_audit(now.last_transaction)
        if newest > self.audit_id and claim_lost(newest, audits.snapshot().last_transaction(LEDGER_APP_ID)):
            raise ledger_lost(self.lake.location, newest, self.audit_id)
        # Audits have looked already (claim.py), and a rebuild goes on without rows that it makes again.
        recorded = (self._reported["newest_audits"] or {}).get(name) if self.ledger_version is not None else None
        if is_lost(recorded, newest, now.files):
            raise version_lost(self.lake.location, name)
        return now.version if newest <= self.audit_id else min(log.version_as_of(a, self.audit_id) for a in APP_IDS)

    def read(self, name: str) -> DataFrame:
        """The table's rows; later commits do not change the frame."""
        version = self.version(name)
        # Delta skips files of a large table by their statistics; listing those of a small one costs a Spark job.
        is_large = TABLES[name].kind == "history"
        rows = self.lake.read(name, version, NOTHING) if is_large else self.lake.read_files(name, version)
        return self.replaced.left_out(name, rows) if name in REPLACEABLE else rows

    def rows(self, name: str, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()) -> pa.Table:
        """As Lake.rows: without a Spark job if pyarrow reaches the lake."""
        version = self.version(name)
        replaced = self.replaced if name in REPLACEABLE else NOTHING
        return self.lake.rows(name, version, columns=columns, conditions=conditions, replaced=replaced)


# Old versions in the tables' logs, and their removal. Delta's writers would delete older versions at a checkpoint,
# perhaps an unfinished audit's, and so the one that readers go back to. So our tables have
# `delta.enableExpiredLogCleanup=false`, and we clean up here.


# As long as Delta keeps them by default, for time travel by number or time.
KEPT_MS = 30 * DAY_MS

# A commit, its checksum, commits in one file (the second number is the last one's), a checkpoint or a part of one.
_FILE = re.compile(r"(?:\d{20}\.)?(?P<version>\d{20})\.(?:json|crc|compacted\.json|checkpoint\..+)")


def old_versions(left: LakeAsOfAudit, name: str, *, remove: bool = False) -> int:
    """The number of old versions of a table's log that no reader needs; `remove`: deletes them. `left`: the lake as of
    its last finished audit. It may be late: the versions that readers go back to only get later."""
    log, store, version = left.lake.table(name), left.lake.store, left.version(name)
    folder = f"{log.path}/_delta_log"
    files = {file: at_ms for file, (_, at_ms) in store.files_in(folder).items()}
    old = files_before(files, log.snapshot().version if version is None else version, time.time() * 1000 - KEPT_MS)
    for file in old if remove else ():
        store.delete(f"{folder}/{file}")
    return sum(file.endswith(".json") and "compacted" not in file for file in old)


def files_before(files: Mapping[str, float], wanted: int, last_ms: float) -> list[str]:
    """The files of a log (name: last change, epoch ms) that are not needed to read a version from `wanted` on, or one
    younger than `last_ms`; oldest first. A version needs a checkpoint at or before it, and the commits since."""
    old_enough = whole_checkpoints(file for file, at_ms in files.items() if at_ms < last_ms)
    start = max((version for version in old_enough if version <= wanted), default=0)
    old = [(int(found["version"]), file) for file in files if (found := _FILE.fullmatch(file))]
    return [file for version, file in sorted(old) if version < start]
