"""`--keep`: the state at H is saved, then the history below H is reduced, table by table, each in one commit.

A kept state counts once its audit has finished; only then is history reduced to it, by the next audit number. A kill at
any time loses nothing that a rebuild needs, and the next maintenance reduces the rest.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.state_entries import MARK, made_by
from kgroups_spark.errors import KgroupsError
from kgroups_spark.findings.finders import has_looked
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.failures import reported_in_one_line
from kgroups_spark.lake.lake import Lake, named_if_lost
from kgroups_spark.lake.last_finished import IS_FINISHED, REBUILD_APP_ID
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.local import actions_in
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.replaced import STATE_LOGS, partition_of
from kgroups_spark.lake.store import ChangedMeanwhile, TableFile, total_rows
from kgroups_spark.lake.writer import LakeWriter, is_of_night
from kgroups_spark.replay.log_times import believed_until
from kgroups_spark.replay.reduction import MARKERS, OF_RECORDS, RULES, STORED, Reduction
from kgroups_spark.replay.shard_states import Horizons, Place, keep_states, of_groups, reduced_to
from kgroups_spark.tables.columns import Condition, all_may_hold
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES, arrow_schema
from kgroups_spark.words import to_epoch_ms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def audits_without_findings(finished: pa.Table, moment_ms: int, decided_by: int | None) -> list[int]:
    """The audits whose findings go, sorted: `as_of` is before the moment, and a later one looked for findings.

    `finished`: the ledger's rows of finished audits (audit_id, as_of, rows_added). `decided_by`: the audit with the
    decisions that the view expiry_outcomes compares with later records; it and all later audits stay. None: there are
    no such decisions.
    """
    rows = finished.select(["audit_id", "as_of", "rows_added"]).to_pylist(maps_as_pydicts="strict")
    before = max((row["audit_id"] for row in rows if has_looked(row)), default=0)
    before = before if decided_by is None else min(before, decided_by)
    old = (row for row in rows if row["as_of"] is not None and to_epoch_ms(row["as_of"]) < moment_ms)
    return sorted(row["audit_id"] for row in old if row["audit_id"] < before)


# SQL of DuckDB over files of tables, of which each is named STORED + its name.

Files = Mapping[str, Sequence[TableFile]]

# The order of rows in rewritten files.
IN_ORDER_OF = ("group_id", "transactional_id", "offsets_partition", "topic", "partition", "hour", "log_offset")
ROWS_AT_ONCE = 65_536


def answer(lake: Lake, query: str, files: Files) -> list[tuple[Any, ...]]:
    """The rows of a query over these files of tables."""
    with _connected(lake, query, files) as connection:
        return connection.sql(query).fetchall()


def write_answer(writer: LakeWriter, name: str, query: str, rows: int, files: Files) -> list[Part]:
    """The rows of a query, sorted, as parts of a table, which have at least `rows` rows each but for the last one."""
    columns = [column for column in IN_ORDER_OF if column in TABLES[name].columns.names] or ["audit_id"]
    order = ", ".join(f'"{column}" NULLS FIRST' for column in columns)
    found = list[Part | None]()
    with (
        reported_in_one_line(f"table {name}: a part could not be written"),
        _connected(writer.lake, query, files) as connection,
    ):
        batches = connection.sql(f"SELECT * FROM ({query}) ORDER BY {order}").to_arrow_reader(ROWS_AT_ONCE)
        for first in batches:
            found.append(writer.lake.write(name, _with_next(first, batches, rows), writer.audit_id))
    return [part for part in found if part is not None]


def _with_next(first: pa.RecordBatch, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The batch, and the next ones until there are so many rows."""
    yield first
    seen, following = first.num_rows, iter(batches)
    while seen < rows and (batch := next(following, None)) is not None:
        yield batch
        seen += batch.num_rows


@contextmanager
def _connected(lake: Lake, query: str, files: Files) -> Iterator[DuckDBPyConnection]:
    import duckdb

    with TemporaryDirectory(prefix="kgroups-") as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false; SET memory_limit = '1GB'")
        connection.execute("SET temp_directory = $folder", {"folder": folder})
        for name in {*re.findall(rf"\b{STORED}(\w+)", query)}:
            connection.register(f"{STORED}{name}", lake.dataset(name, [file.path for file in files[name]]))
        yield connection


# The tables in the order of their commits: markers stay with the remaining records of the others.
IN_ORDER = (
    *(name for name in RULES if name not in (MARKERS, *STATE_LOGS)),
    *("group_traffic", "topic_offsets", "cluster_facts", MARKERS, *STATE_LOGS, CHECKPOINTS, "findings"),
)
# Kinds of tables whose removed rows are reported to people.
COUNTED = ("history", "ledger")


def new_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[Place, int]:
    """H of each partition whose H is above the offset to which it is already reduced.

    H is the log offset of the first record later than the moment (epoch ms), but never above the start of a transaction
    that is still open there, because Kafka's cleaner stops before one.
    """
    read = (*(audit.partitions or ()), *audit.state_partitions)
    found = {(each.topic, each.offsets_partition): each.end_offset for each in read}
    files = {name: lake.table(name).files() for name in OF_RECORDS}
    reduction = Reduction({}, lake.replaced, moment_ms)
    # Rows of an unfinished audit, which a dry run sees, may have the first record after the end of this audit's log.
    _lower(found, answer(lake, reduction.first_later(believed_until(audit)), files))
    _lower(found, answer(lake, replace(reduction, horizons=found).first_spanning(), files))
    for row in lake.rows("open_transactions", columns=["offsets_partition", "transaction_start_offset"]).to_pylist():
        place = None, row["offsets_partition"]
        if place in found:
            found[place] = min(found[place], row["transaction_start_offset"])
    known = reduced_to(lake)
    return {place: at for place, at in found.items() if at > known.get(place, 0)}


def _lower(found: dict[Place, int], first: Iterable[tuple[Any, ...]]) -> None:
    for log, partition, log_offset in first:
        place = log or None, partition
        found[place] = min(found.get(place, log_offset), log_offset)


def save_states(writer: LakeWriter, audit: AuditRow, of: Horizons) -> None:
    """Adds the state at H of these partitions to checkpoints; of the two other logs only the offset to which they will
    be reduced. Nothing of it counts before the audit has finished."""
    assert audit.release_version is not None
    if groups := of_groups(of):
        # An audit writes to a table once under each application id.
        keep_states(replace(writer, app_id=REBUILD_APP_ID), groups, audit.release_version)
    facts = {**made_by(writer.audit_id, KEEP, audit.release_version), **MARK._asdict()}
    rows = [{"log": log, "offsets_partition": p, "log_offset": at, **facts} for (log, p), at in of.items() if log]
    writer.append_table(CHECKPOINTS, pa.Table.from_pylist(rows, schema=arrow_schema(CHECKPOINTS)))


class Outcome(NamedTuple):
    """The number of a table's rows before and after."""

    seen: int
    staying: int

    @property
    def gone(self) -> int:
        return self.seen - self.staying


@dataclass(frozen=True)
class KeptHistory:
    """A lake's history, reduced below `of`, and traffic, findings and the like before the moment."""

    lake: Lake
    of: Horizons
    moment_ms: int

    def apply(self, writer: LakeWriter, say: Callable[[str], None]) -> dict[str, int]:
        """Reduces every table; returns the number of removed rows by table."""
        say("reducing old history")
        removed = {name: outcome for name, outcome in self._outcomes().items() if outcome.gone}
        for name, outcome in removed.items():
            say(f"reducing {name}")
            rewrite(writer, name, self._reduction.rows_left(name), self._files, outcome.staying)
        return _counted(removed)

    def foreseen(self) -> dict[str, int]:
        """The number of rows that would be removed, by table."""
        return _counted(self._outcomes())

    @cached_property
    def old(self) -> list[int]:
        """The audits whose findings go."""
        columns = ["audit_id", "as_of", "rows_added"]
        then = LakeAsOfAudit.last_finished(self.lake)
        decided_by = pc.min(then.rows("previous_offset_expiry", ["decided_by"])["decided_by"]).as_py()
        finished = self.lake.rows("audits", columns=columns, conditions=[IS_FINISHED])
        return audits_without_findings(finished, self.moment_ms, decided_by)

    @cached_property
    def _files(self) -> dict[str, list[TableFile]]:
        """The files that may have rows to remove; others stay as they are."""
        return {
            name: [file for file in self.lake.table(name).files() if self._may_be_old(name, file)] for name in IN_ORDER
        }

    def _may_be_old(self, name: str, file: TableFile) -> bool:
        if name == CHECKPOINTS:
            return not is_of_night(file) and all_may_hold([Condition("reason", "==", KEEP)], file.bound)
        return name not in RULES or any(
            all_may_hold(
                [Condition(partition_of(name), "==", number), Condition("log_offset", "<=", at - 1)], file.bound
            )
            for (log, number), at in self.of.items()
            if (log or "") in STATE_LOGS.get(name, ("",))
        )

    @cached_property
    def _reduction(self) -> Reduction:
        return Reduction(self.of, self.lake.replaced, self.moment_ms, self.old)

    def _outcomes(self) -> dict[str, Outcome]:
        names = [name for name in self._files if self._files[name]]
        with reported_in_one_line("old history could not be read"):
            counts = answer(self.lake, self._reduction.counts(names), self._files) if names else []
        found = {name: Outcome(seen, staying) for name, seen, staying in counts}
        for name, (seen, _) in found.items():
            if seen != total_rows(self._files[name]):
                raise KgroupsError(
                    f"table {name}: {seen} of {total_rows(self._files[name])} rows were found; nothing was changed"
                )
        return {name: found[name] for name in names}


def _counted(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    return {name: each.gone for name, each in outcomes.items() if each.gone and TABLES[name].kind in COUNTED}


def kept_history(lake: Lake, moment_ms: int, further: Horizons | None = None) -> KeptHistory:
    """History reduced to the newest kept states, or further, to `further` (only for a dry run)."""
    return KeptHistory(lake, {**reduced_to(lake), **(further or {})}, moment_ms)


# Upkeep of the tables: small files are compacted in an order that suits queries, and files that no version needs any
# more are deleted.
#
# An audit leaves a few small files in each table, with the rows of one night. They are rewritten in lots of consecutive
# nights, sorted by group, offsets partition, topic, partition and log offset. Then a query for "one group, last week"
# reads a few row groups of a few files, even without the group's offsets partition. Delta's own OPTIMIZE only
# concatenates files, and its ZORDER BY starts from the whole table each time and does not sort inside a file;
# benchmarks/README.md has the figures. Neither way needs more than reader version 1 and writer version 2.

# The size to aim for in a file, the size below which it is small, and the size of a lot of nights, sorted at once.
FILE_BYTES = 32 << 20
SMALL_BYTES = FILE_BYTES // 2
LOT_BYTES = 256 << 20


@dataclass(frozen=True)
class Rewritten:
    """The outcome for a table's files, or the expected one (`bytes_after` None: not known before a run)."""

    table: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int | None


def is_optimized(name: str) -> bool:
    """Whether the table is optimized. Each audit rewrites current tables anyway, and a file of saved states must have
    those of one audit only."""
    return TABLES[name].kind in ("history", "ledger")


def lots(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """The small files, oldest audits first, in lots that are worth rewriting because the result has fewer files."""
    small = sorted(
        (file for file in files if file.size < SMALL_BYTES),
        key=lambda file: (file.bound("minValues", "audit_id") or 0, file.path),
    )
    found: list[list[TableFile]] = [[]]
    for file in small:
        if total_bytes(found[-1]) >= LOT_BYTES:
            found.append([])
        found[-1].append(file)
    return [lot for lot in found if len(lot) > files_for(total_bytes(lot))]


def files_for(size_bytes: int) -> int:
    """The number of files for that many bytes."""
    return max(1, -(-size_bytes // FILE_BYTES))


def total_bytes(files: Sequence[TableFile]) -> int:
    return sum(file.size for file in files)


def optimize(writer: LakeWriter, name: str) -> Rewritten:
    """Compacts the table's small files; one commit for each lot, and none if there is nothing to gain."""
    before = writer.lake.table(name).files()
    for lot in lots(before):
        every = f"SELECT * FROM {STORED}{name}"
        rewrite(writer, name, every, {name: lot}, total_rows(lot), changes_rows=False)
    after = writer.lake.table(name).files()
    return Rewritten(name, len(before), len(after), total_bytes(before), total_bytes(after))


def foreseen(lake: Lake, name: str) -> Rewritten:
    """The work that `optimize` would do."""
    files = lake.table(name).files()
    fewer = sum(len(lot) - files_for(total_bytes(lot)) for lot in lots(files))
    return Rewritten(name, len(files), len(files) - fewer, total_bytes(files), None)


def rewrite(
    writer: LakeWriter,
    name: str,
    query: str,
    files: Mapping[str, Sequence[TableFile]],
    rows: int,
    *,
    changes_rows: bool = True,
) -> None:
    """Replaces the table's files by the query's answer over `files`, which must have so many rows."""
    of_table = files[name]
    size = files_for(total_bytes(of_table) * rows // max(total_rows(of_table), 1))
    parts = write_answer(writer, name, query, rows // size, files)
    missing = rows - sum(part.records for part in parts)
    if missing:
        raise KgroupsError(f"table {name}: of {rows} rows {missing} would be missing; nothing was changed")
    replace_files(writer, name, of_table, parts, changes_rows=changes_rows)


def replace_files(
    writer: LakeWriter, name: str, files: Sequence[TableFile], parts: Sequence[Part], *, changes_rows: bool = True
) -> None:
    """Replaces the files by the parts, in one commit. Raises KgroupsError, with nothing committed, if a part is
    missing, or if another process has replaced one of the files."""
    log, paths = writer.lake.table(name), {file.path for file in files}
    missing = log.missing(parts)
    if missing:
        raise KgroupsError(f"table {name}: parts that tasks wrote are not there ({missing[0]}); nothing was changed")
    replace = partial(
        log.commit,
        parts,
        by=f"kgroups-spark maintain {writer.audit_id}",
        remove=lambda file: file.path in paths,
        removes=len(paths),
        changes_rows=changes_rows,
    )
    try:
        operation = "replace" if changes_rows else "optimize"
        writer.fence.commit(name, operation, lambda transaction: replace(transaction=transaction))
    except ChangedMeanwhile as meanwhile:
        raise KgroupsError(
            f"table {name}: another program rewrote its files at the same time ({meanwhile}): run maintain again"
        ) from meanwhile


def restore_files(writer: LakeWriter, name: str, version: int | None) -> None:
    """Restores the files of an earlier version of the table. Raises KgroupsError if they are gone."""
    log = writer.lake.table(name)
    then, now = ({file.path: file for file in log.files(at)} for at in (version, None))
    if then.keys() == now.keys():
        return
    parts = [
        Part(name, unquote(path), file.size, int(file.stats["numRecords"]), json.dumps(file.stats))
        for path, file in then.items()
        if path not in now
    ]
    missing = log.missing(parts)
    if missing:
        raise KgroupsError(f"table {name}: what the last finished audit left is gone ({missing[0]}): run kgroups audit")
    by = f"kgroups-spark maintain {writer.audit_id}, as of the last finished audit"
    replace = partial(log.commit, parts, by=by, remove=lambda file: file.path not in then)
    writer.fence.commit(name, "replace", lambda transaction: replace(transaction=transaction))


def vacuum(writer: LakeWriter, name: str, retain_ms: int) -> int:
    """Deletes the files that no version within `retain_ms` needs, including those of failed tasks; returns the bytes
    freed."""
    lake, old = writer.lake, unneeded(writer.lake, name, retain_ms)

    def delete() -> None:
        for file in old:
            lake.store.delete(f"{lake.table(name).path}/{file}")

    # No version within that time needs them, not even one of an audit that has taken over meanwhile.
    if old:
        with named_if_lost(writer.check_claim):
            lake.commit(name, "vacuum", delete)
    return sum(old.values())


def unneeded(lake: Lake, name: str, retain_ms: int) -> dict[str, int]:
    """The files that `vacuum` would delete, and their bytes: files of no version that is younger than `retain_ms`, and
    older than that themselves."""
    log, last_ms = lake.table(name), time.time() * 1000 - retain_ms
    needed = {unquote(file.path) for file in log.files()}
    files = lake.store.files_in(log.path)
    old = {file: size for file, (size, at_ms) in files.items() if file not in needed and at_ms < last_ms}
    if not old:
        return {}
    entries = lake.store.files_in(f"{log.path}/_delta_log")
    for entry, (_, at_ms) in entries.items():
        if at_ms >= last_ms and re.fullmatch(r"\d{20}\.json", entry):
            removed = (each.get("remove") for each in actions_in(log.entry(int(entry[:20])) or "", entry))
            needed |= {unquote(each["path"]) for each in removed if each}
    return {file: size for file, size in old.items() if file not in needed}
