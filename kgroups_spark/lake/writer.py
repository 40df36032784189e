"""Writing to the lake: tasks write Parquet by pyarrow (parts.py), and the driver commits it (store.py). One transaction
of one audit writes a table; a second one with the same number is refused."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from kgroups_spark.errors import KgroupsError, UsageError, reason_of
from kgroups_spark.lake.lake import Fence, Lake, named_if_lost, until_nobody_interferes
from kgroups_spark.lake.last_finished import APP_ID
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.store import AlreadyWritten, Removal, TableFile
from kgroups_spark.sources.files import file_system
from kgroups_spark.spark.tasks import line_batch, numbers, numbers_in
from kgroups_spark.tables.columns import Condition, all_may_hold
from kgroups_spark.tables.definitions import NIGHT
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES, WORK_FOLDER

# The state that one audit saved: each shard's is a file whose statistics name the audit. Another program may have
# merged the states of two audits since (OPTIMIZE, auto compaction): then the rows decide.


def rows_of_state(table: str, audit_id: int) -> list[Condition]:
    return [*_of_nights(table), Condition("audit_id", "==", audit_id)]


def newest_state(lake: Lake, table: str, audit_id: int) -> int | None:
    """The newest audit, up to this one, with a state in the table; None: there is none."""
    conditions = [*_of_nights(table), Condition("audit_id", "<=", audit_id)]
    files = [file for file in lake.table(table).files() if all_may_hold(conditions, file.bound)]
    if all(file.value_of(each.column) is not None for file in files for each in conditions):
        return max((file.value_of("audit_id") for file in files), default=None)
    wrote = lake.rows(table, files=files, columns=["audit_id"], conditions=conditions)["audit_id"]
    newest: int | None = pc.max(wrote).as_py()
    return newest


def is_of_night(file: TableFile) -> bool:
    """Whether a file of checkpoints has only states of nights."""
    return bool(file.value_of("reason") == NIGHT)


def _of_nights(table: str) -> list[Condition]:
    """The condition for states of nights; empty for other tables of states, which have nothing else."""
    return [Condition("reason", "==", NIGHT)] if table == CHECKPOINTS else []


@dataclass(frozen=True)
class LakeWriter:
    """Writes the tables for one audit; `check_claim` is called before each commit and raises if the claim is lost.
    `app_id` allows one commit for each table and audit."""

    lake: Lake
    audit_id: int
    check_claim: Callable[[], None]
    app_id: str = APP_ID
    # The newest audit in each table's log, for the ledger: at first as the last finished audit recorded it. Without
    # checkpoints: an audit that finds an older state there rebuilds it (audit/work.py).
    newest_audits: dict[str, int] = field(default_factory=dict)

    def append_table(self, table: str, rows: pa.Table) -> None:
        """Appends rows that the driver has in memory; no commit without rows."""
        self.append_parts(table, self.lake.write(table, [rows], self.audit_id))

    def replace_table(self, table: str, rows: pa.Table) -> None:
        """Replaces the table's rows by rows that the driver has in memory; an empty table and no rows: no commit."""
        self.replace_parts(table, self.lake.write(table, [rows], self.audit_id))

    @property
    def fence(self) -> Fence:
        return Fence(self.lake, self.audit_id, self.check_claim)

    def replace_parts(self, table: str, parts: Sequence[Part], keep_audit: int | None = None) -> None:
        """Replaces the table's rows by the parts'. Rows of `keep_audit` stay, and so do rows of checkpoints that are
        not a night's state. An empty table and no parts: no commit."""
        if parts or self.lake.table(table).files():
            self.append_parts(table, parts, partial(_goes, table, keep_audit))

    def append_parts(self, table: str, parts: Sequence[Part], remove: Removal | None = None) -> None:
        """Appends the rows of parts that tasks have written, in place of the files to remove; neither: no commit."""
        if not parts and remove is None:
            return
        by, transaction = f"kgroups-spark audit {self.audit_id}", (self.app_id, self.audit_id)
        write = partial(self.lake.table(table).commit, parts, by=by, transaction=transaction, remove=remove)
        try:
            with named_if_lost(self.check_claim):
                operation = "append" if remove is None else "replace"
                self.lake.commit(table, operation, partial(until_nobody_interferes, write))
        except AlreadyWritten as refused:
            raise KgroupsError(
                f"table {table} was written by audit {self.audit_id} or a later one before ({refused}): nothing added"
            ) from refused
        if table != CHECKPOINTS:
            self.newest_audits[table] = self.audit_id


def _goes(table: str, keep_audit: int | None, file: TableFile) -> bool:
    is_kept = keep_audit is not None and all_may_hold([Condition("audit_id", "==", keep_audit)], file.bound)
    return not is_kept and (table != CHECKPOINTS or is_of_night(file))


# How tasks reach the lake: by pyarrow, or by Spark and Hadoop, which then carry the files (hadoop.py).


# The number of workers that are probed at once, so that one without a mount, a package or an access key is among them.
MOST_PROBES = 16


def make_writable(lake: Lake) -> str | None:
    """Lets tasks reach the lake's files; returns a note if they must be carried. Raises UsageError for tables that
    cannot take plain files, and for a local folder that the machines do not share."""
    for name in {*lake.place.names()}.intersection(TABLES):  # a deleted table is created again
        log = lake.table(name)
        refusal = log.refusal()
        if refusal is None and log.path != f"{lake.uri}/{name}":
            refusal = f"is not in {lake.uri} under its name"
        if refusal is not None:
            raise UsageError(
                f"the lake at {lake.location}: table {name} {refusal}, but audits add plain Parquet files to tables in "
                "one folder: undo that, or name another lake"
            )
    hindrance = None if _tasks_are_here(lake) else probe(lake)
    if hindrance is None:
        return None
    if lake.uri.startswith("file:"):
        raise UsageError(f"the lake at {lake.location} is not a folder that the workers share: {hindrance}")
    lake.carry()
    return f"Spark and Hadoop carry the lake's files: {hindrance}"


def make_readable(lake: Lake) -> None:
    """Lets tasks read the lake's files."""
    if not _tasks_are_here(lake) and (lake.stand_in is not None or not _tasks_see(lake)):
        lake.carry()


def _tasks_see(lake: Lake) -> bool:
    uri = f"{lake.uri}/audits/_delta_log"

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage, folder = file_system(uri)
        if storage.get_file_info(folder).type != pa.fs.FileType.Directory:
            raise FileNotFoundError(uri)
        yield line_batch([])

    try:
        lake.runner.map(look, numbers(min(lake.runner.slots, MOST_PROBES)))
    except Exception:  # any error of the storage
        return False
    return True


def _tasks_are_here(lake: Lake) -> bool:
    return lake.uri.startswith("file:") and lake.runner.is_here


def probe(lake: Lake) -> str | None:
    """Each task writes a file with pyarrow, and the driver looks for the files with Hadoop. None: all files are there;
    otherwise the reason as the end of a sentence."""
    name, uri = f"probe-{uuid.uuid4()}", f"{lake.uri}/{WORK_FOLDER}"
    tasks = min(lake.runner.slots, MOST_PROBES)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers_in(batches):
            storage, folder = file_system(uri)
            storage.create_dir(folder)
            with storage.open_output_stream(f"{folder}/{name}-{number}") as file:
                file.write(name.encode())
        yield line_batch([])

    try:
        lake.runner.map(write, numbers(tasks))
    except Exception as error:  # any error of the storage
        return f"a task cannot write to {uri} with pyarrow ({reason_of(error)})"
    seen = {found for found in lake.store.names_in(uri) if found.startswith(name)}
    for found in seen:
        lake.store.delete(f"{uri}/{found}")
    return None if len(seen) == tasks else f"a file that a task wrote to {uri} is not seen by the driver"
