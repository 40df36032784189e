"""The end of a night in one process, behind tests/audit/pipeline.py: ledger facts, decisions, findings, summary."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pyarrow as pa

from kgroups_spark.audit.changes import Changes, TablesOfNow
from kgroups_spark.audit.findings import evidence_of, findings_table
from kgroups_spark.audit.moment import Moment
from kgroups_spark.audit.result import AuditResult, LedgerFacts, ledger_facts, quarantined_by_reason
from kgroups_spark.audit.settings import AuditSettings
from kgroups_spark.audit.summary import AuditSummary
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.coordinator.expiry_rules import expiry_rules
from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.decoding.range_decoder import RangeProgress
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.expiry.clean_up import HELD_GROUPS, CleanUp, columns_needed
from kgroups_spark.findings.finders import look
from kgroups_spark.findings.finding import Finding
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.replaced import NOTHING
from kgroups_spark.plan.audit_plan import AuditPlan, PartitionPlan
from kgroups_spark.sources.partition_log import PartitionLog
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.audit.decoded import whole_ranges
from tests.audit.log_files import Files, segments_of
from tests.audit.pipeline import Audited, How, audit_night
from tests.audit.told_tables import CURRENT
from tests.findings.found import ArrowTables
from tests.views.replayed_logs import tables_of

# This machine's clock, where a test does not say: a day behind the newest time of any log here would be ahead of it.
CLOCK_MS = int(datetime(2026, 11, 22, tzinfo=UTC).timestamp() * 1000)


@dataclass(frozen=True)
class Night:
    """What an audit has concluded."""

    audited: Audited
    facts: LedgerFacts
    row: AuditRow
    tables: dict[str, pa.Table]
    findings: list[Finding]
    found_notes: list[str]  # of finders that failed
    lines: list[str]

    @property
    def as_of_ms(self) -> int:
        return self.facts.moment.as_of_ms

    @property
    def notes(self) -> tuple[str, ...]:
        return self.row.notes or ()


def night(
    files: Files,
    how: How | None = None,
    *,
    before: Night | None = None,
    ranges: Sequence[LogRange] | None = None,
    clock_ms: int = CLOCK_MS,
    as_of: int | None = None,
    in_history: dict[int, int] | None = None,
) -> Night:
    """One audit from the bytes to the lines that a person sees, after `before`, whose ranges it does not read again.

    `in_history`: the newest times (ms) by offsets partition that history says, where a ledger holds impossible ones.
    """
    how = replace(how or How(), latest_ms=clock_ms + CLOCKS_DIFFER_MS)
    past = _past(before)
    audited = audit_night(files, whole_ranges(files) if ranges is None else ranges, how, past)
    progress = audited.progress[len(before.audited.progress) if before else 0 :]
    work = _work(files, how, progress, audited.audits, before, clock_ms, as_of)
    with _history(in_history):
        moment = Moment.of(work, progress)
    result = AuditResult(moment, progress, _rows_added(audited), quarantined_by_reason(progress, 0))
    facts = ledger_facts(work, result, [])
    clean_up = CleanUp(moment.as_of_ms, work.settings.retention_ms, how.release, audited.audits)
    tables = tables_of(audited)
    tables |= dict(clean_up.decided(_decided_by(audited, tables)))
    row = _ledger_row(audited, facts)
    found = look(replace(_evidence(work, facts, progress, before), tables=ArrowTables(_findable(tables))))
    findings_table(found.findings, audited.audits).validate(full=True)
    now, then = _tables_of_now(tables), None if before is None else _tables_of_now(before.tables)
    changes = None if then is None or before is None else Changes.between(before.row.audit_id, then, now)
    lines = list(AuditSummary(row, now, changes, "parts").lines())
    return Night(audited, facts, row, tables, found.findings, found.notes, lines)


def _past(before: Night | None) -> Audited:
    """The lake before this night, which leaves it as it is."""
    if before is None:
        return Audited()
    past = copy.copy(before.audited)
    past.progress = list(past.progress)
    past.history = defaultdict(list, {name: list(parts) for name, parts in past.history.items()})
    return past


def _history(newest: dict[int, int] | None) -> Any:
    def found(lake: object, partitions: set[int], latest_ms: int) -> dict[int, int]:
        assert newest is not None, "history was asked"
        return {number: ms for number, ms in newest.items() if number in partitions and ms <= latest_ms}

    return mock.patch("kgroups_spark.history.known_times.newest_in_history", found)


def _work(
    files: Files,
    how: How,
    progress: Sequence[RangeProgress],
    audit_id: int,
    before: Night | None,
    clock_ms: int,
    as_of: int | None,
) -> AuditWork:
    retention_ms = expiry_rules(how.release).default_retention_ms if how.retention_ms is None else how.retention_ms
    plans = []
    for number in segments_of(files):
        start = min((p.start_offset for p in progress if p.offsets_partition == number), default=0)
        log = cast(PartitionLog, SimpleNamespace(partition=number, is_there=True, topic_id=None, readable_to=None))
        known = None if before is None else before.row.progress(number)
        plans.append(PartitionPlan(log, 0, start, None, before=known))
    work = SimpleNamespace(
        lake=None,
        audit_id=audit_id,
        plan=AuditPlan(plans, None),
        before=None if before is None else before.row,
        settings=AuditSettings(how.release, retention_ms, "default", 86_400_000, clock_ms, as_of),
        is_live=False,
        source=SimpleNamespace(),
        source_name="segments",
        replaced=NOTHING,
        state=SimpleNamespace(why_rebuilt=None),
        chosen_partitions=True,
        offsets_partitions=lambda progress: how.offsets_partitions,
    )
    return cast(AuditWork, work)


def _rows_added(audited: Audited) -> Counter[str]:
    return Counter({name: sum(map(len, tables)) for name, tables in audited.history.items()})


def _ledger_row(audited: Audited, facts: LedgerFacts) -> AuditRow:
    started = datetime(2026, 11, 22, tzinfo=UTC)
    return AuditRow(audited.audits, "finished", "host 1 2 3", started, finished_at=started, **facts.columns)


def _decided_by(audited: Audited, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    noted = [row for row in audited.rows("coordinator_state") if row["entry_type"] == "noted"]
    held = pa.Table.from_pylist(noted, schema=columns_needed(HELD_GROUPS))
    return {**{name: tables[name] for name in CURRENT}, HELD_GROUPS: held}


def _findable(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    return {name: tables.get(name, arrow_schema(name).empty_table()) for name in TABLES}


def _evidence(work: AuditWork, facts: LedgerFacts, progress: Sequence[RangeProgress], before: Night | None) -> Any:
    known = [] if before is None else [each._asdict() for each in before.findings]
    with mock.patch("kgroups_spark.audit.findings._found_before", lambda *_: known):
        return evidence_of(work, facts, progress)


def _tables_of_now(tables: dict[str, pa.Table]) -> TablesOfNow:
    groups = tables["groups"].to_pylist(maps_as_pydicts="strict")
    return TablesOfNow(
        {(row["offsets_partition"], row["group_id"]): row["state"] for row in groups},
        {name: tables[name].num_rows for name in CURRENT},
        sum(row == "expire" for row in tables["offset_expiry"]["decision"].to_pylist()),
    )
