"""The findings of an audit: evidence from the lake as this audit leaves it, rows for the table `findings`.

If the driver reaches the files by pyarrow, no Spark job is needed; otherwise Spark chooses the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.dataset

from kgroups_spark.audit.result import EPOCH, AuditResult, LedgerFacts
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.errors import attempt
from kgroups_spark.findings.finders import FINDINGS, has_looked, look
from kgroups_spark.findings.finding import Evidence, Finding, LargeRecord, Row, TimesOff, TransactionState
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import finished_backwards
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.store import TableFile
from kgroups_spark.messages.coordinator_records import TRANSACTION_LOG
from kgroups_spark.replay.ranges import RangeProgress
from kgroups_spark.tables.columns import Condition, all_may_hold, expression_of
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.words import to_datetime, to_epoch_ms


def find(work: AuditWork, facts: LedgerFacts, result: AuditResult) -> None:
    """Appends the findings on the present tables to `findings`. Adds their number to the facts, or a note if that
    failed."""
    work.progress("looking for findings")
    columns = facts.columns
    found, failure = attempt(
        "looking for findings",
        lambda: look(replace(evidence_of(work, facts, result.progress), mixed_commits=result.mixed)),
    )
    if found is None:
        columns["notes"] += (failure,)
        return
    rows, failures = _rows(found.findings, work.audit_id)
    # Not in an attempt: an audit that lost its claim ends here.
    work.writer.append_table(FINDINGS, rows)
    columns["rows_added"][FINDINGS] = rows.num_rows
    columns["notes"] += (*found.notes, *failures)


def _rows(found: Sequence[Finding], audit_id: int) -> tuple[pa.Table, list[str]]:
    """The rows, and notes on findings that the table rejects, which cost only themselves."""
    rows, failure = attempt("writing findings", lambda: findings_table(found, audit_id))
    if rows is not None:
        return rows, []
    if len(found) < 2:
        return findings_table([], audit_id), [failure or ""]
    half = len(found) // 2
    tables, notes = zip(*(_rows(some, audit_id) for some in (found[:half], found[half:])), strict=True)
    return pa.concat_tables(tables), list(dict.fromkeys(itertools.chain(*notes)))


def findings_table(found: Iterable[Finding], audit_id: int) -> pa.Table:
    """The rows as the lake has them."""
    rows = [(*each[:-1], None if each.since is None else to_epoch_ms(each.since), each.severity) for each in found]
    batch = table_batch(FINDINGS, (*Finding._fields, "severity"), rows, audit_id=audit_id)
    return pa.Table.from_batches([batch], arrow_schema(FINDINGS))


def evidence_of(work: AuditWork, facts: LedgerFacts, progress: Sequence[RangeProgress]) -> Evidence:
    """The audit's knowledge once all but its own row of the ledger is written."""
    lake, partitions = work.lake, facts.columns["partitions"]
    as_of: datetime = facts.columns["as_of"]
    given = {each.offsets_partition for each in work.plan.partitions}
    not_given = [each for each in partitions if each.offsets_partition not in given and work.source is not None]
    read = [each for each in progress if not each.is_reread]
    return Evidence(
        LakeTables(lake),
        work.audit_id,
        as_of,
        to_datetime(facts.moment.known_until_ms),
        work.settings.retention_ms,
        tuple(LargeRecord(each.offsets_partition, *fields) for each in read for fields in each.large_records),
        tuple(TimesOff(each.offsets_partition, *fields) for each in read for fields in each.times_off),
        {each.offsets_partition: min(as_of, each.newest_log_timestamp or EPOCH) for each in not_given},
        {each.offsets_partition: each.log_start_offset or 0 for each in partitions},
        _found_before(lake, work.before),
        transaction_state(facts.columns["state_partitions"], is_live=work.is_live),
        hidden=[(number, *each) for number, each in facts.shortfall.hidden],
    )


def transaction_state(entries: Iterable[PartitionProgress], *, is_live: bool) -> TransactionState:
    """How far `__transaction_state` was read, by the ledger's entries."""
    read = [each for each in entries if each.topic == TRANSACTION_LOG.topic]
    newest = max((each.newest_log_timestamp or EPOCH for each in read), default=None)
    return TransactionState(frozenset(each.offsets_partition for each in read), None if is_live else newest)


def _found_before(lake: Lake, before: AuditRow | None) -> list[Row]:
    if before is None:
        return []
    finished = finished_backwards(partial(lake.rows, "audits"), ["rows_added"], before.audit_id)
    looked = next((row["audit_id"] for row in finished if has_looked(row)), None)
    if looked is None:
        return []
    columns = arrow_schema(FINDINGS).names
    rows: list[Row] = LakeTables(lake).rows(FINDINGS, columns, Condition("audit_id", "==", looked)).to_pylist()
    return rows


# A table of fewer rows is read once, whole: it is used several times, and opening its files, or the Spark job, costs
# the most.
SMALL_TABLE_ROWS = 50_000


class LakeTables:
    """The newest rows of a lake's tables, for as long as nothing is written to them."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._files: dict[str, list[TableFile]] = {}
        self._small: dict[str, pa.Table] = {}

    def rows(self, name: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        if name not in self._files:
            self._files[name] = self.lake.table(name).files()
        if self._is_small(name):
            if name not in self._small:
                self._small[name] = self.lake.rows(name, files=self._files[name])
            rows, where = self._small[name], expression_of(conditions)
            return (rows if where is None else rows.filter(where)).select(columns)
        files = self._files[name]
        return self.lake.rows(name, files=files, columns=columns, conditions=conditions)

    def source(self, name: str, *conditions: Condition) -> pa.Table | pa.dataset.Dataset:
        columns = arrow_schema(name).names
        if name not in self._files:
            self._files[name] = self.lake.table(name).files()
        if self._is_small(name) or self.lake.replaced.touches(name):
            return self.rows(name, columns, *conditions)
        found = self.lake.dataset(
            name, [each.path for each in self._files[name] if all_may_hold(conditions, each.bound)]
        )
        return found if isinstance(found, pa.dataset.FileSystemDataset) else found.to_table()

    def _is_small(self, name: str) -> bool:
        """Whether Delta's log counts few rows; the count may include deleted rows. From history only the few files
        of an audit are read."""
        counts = (file.stats.get("numRecords", SMALL_TABLE_ROWS + 1) for file in self._files[name])
        return TABLES[name].kind != "history" and sum(counts) <= SMALL_TABLE_ROWS
