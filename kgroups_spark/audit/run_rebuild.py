"""`kgroups rebuild`: every derived table, rebuilt from history alone, under a claim like an audit's.

claim a number -> delete what unfinished audits left -> versions, current tables and state from history
-> findings -> ledger
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from kgroups_spark.audit.findings import find
from kgroups_spark.audit.log_source import AuditSettings, RetentionSource
from kgroups_spark.audit.options import require_partition_count, silent
from kgroups_spark.audit.plan import DEFAULT_DELETE_RETENTION_MS, AuditPlan
from kgroups_spark.audit.rebuild import rebuild
from kgroups_spark.audit.result import AuditResult, audit_state_logs, ledger_facts
from kgroups_spark.audit.state_log_plan import NamingWriter, StatePlan, complete_share_partitions
from kgroups_spark.audit.summary import AuditSummary, Changes, current_tables
from kgroups_spark.audit.work import AuditWork, Moment, intention, saved_state
from kgroups_spark.coordinator.releases import expiry_rules
from kgroups_spark.errors import UsageError
from kgroups_spark.lake.claim import Claim, clear_up, gone_tables, make_again, require_newest
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import TABLES_ALONE
from kgroups_spark.lake.ledger import AuditRow, Ledger
from kgroups_spark.lake.writer import LakeWriter, make_writable
from kgroups_spark.words import counted, to_epoch_ms


@dataclass(frozen=True)
class RebuildOptions:
    """The options of `kgroups rebuild`. Times and durations in ms; None: the value of the last finished audit."""

    lake: str
    as_of: int | None = None
    retention_ms: int | None = None
    release_version: str | None = None
    offsets_partitions: int | None = None
    take_over: bool = False
    progress: Callable[[str], None] = silent

    def settings(self, before: AuditRow) -> AuditSettings:
        assert before.release_version is not None
        clock_ms = to_epoch_ms(datetime.now(UTC))
        release_version = self.release_version or before.release_version
        retention_ms, source = self._retention(before, release_version)
        return AuditSettings(
            release_version,
            retention_ms,
            source,
            DEFAULT_DELETE_RETENTION_MS,
            clock_ms,
            to_epoch_ms(before.as_of) if self.as_of is None and before.as_of is not None else self.as_of,
            self.offsets_partitions,
        )

    def _retention(self, before: AuditRow, release_version: str) -> tuple[int, RetentionSource]:
        if self.retention_ms is not None:
            return self.retention_ms, "option"
        # A default belongs to the release: another release may have another default.
        if before.retention_ms is None or before.retention_source == "default":
            return expiry_rules(release_version).default_retention_ms, "default"
        return before.retention_ms, "broker" if before.retention_source == "broker" else "option"


@dataclass(frozen=True)
class RebuildSummary(AuditSummary):
    def _read(self) -> Iterator[str]:
        partitions = counted(len(self.audit.partitions or ()), "partition")
        yield f"audit {self.audit.audit_id}: all tables rebuilt from the history of {partitions}"


def run_rebuild(spark: SparkSession, options: RebuildOptions) -> RebuildSummary:
    """Rebuilds the tables. Raises KgroupsError; then none of its rows count, and the next audit repeats the rebuild."""
    lake = Lake.open(spark, options.lake)
    before = _last_finished(lake)
    require_partition_count(options.offsets_partitions, (each.offsets_partition for each in before.partitions or ()))
    gone = gone_tables(lake)
    newest_audits = require_newest(lake, before, rebuilds=True)
    why = make_writable(lake)
    meant = intention(options.settings(before).release_version, TABLES_ALONE, gone)
    with Claim.take(lake, take_over=options.take_over, **meant) as claim:
        make_again(claim.fence, gone)
        clear_up(claim)
        writer = LakeWriter(lake, claim.audit_id, claim.check, newest_audits=newest_audits)
        return _rebuild(options, lake, claim, writer, [*filter(None, (why,)), *claim.notes])


def _last_finished(lake: Lake) -> AuditRow:
    found = Ledger(lake).last_finished()
    if found is None:
        raise UsageError(
            f"no audit of {lake.location} has finished, so there is no history yet: run kgroups audit first"
        )
    return found


def _rebuild(options: RebuildOptions, lake: Lake, claim: Claim, writer: LakeWriter, notes: list[str]) -> RebuildSummary:
    before = claim.before
    assert before is not None
    settings = options.settings(before)
    state = replace(saved_state(lake, claim, settings.release_version), why_rebuilt=None)
    plan = AuditPlan([], before.cluster_id)
    work = AuditWork(
        lake,
        writer,
        plan,
        before,
        state,
        settings,
        options.progress,
        chosen_partitions=True,
        states=StatePlan(before=before),
    )
    then = current_tables(lake, work.then)
    states = audit_state_logs(work, from_history=True)
    if work.states.shards:
        work = replace(work, writer=NamingWriter.of(work.writer))
    moment = Moment.of(work, [])
    rebuilt = rebuild(work, as_of_ms=moment.as_of_ms)
    if states.share_partitions is not None:
        complete_share_partitions(work.writer, states.share_partitions)
    facts = ledger_facts(work, AuditResult(moment, states=states), notes)
    facts = replace(facts, columns=rebuilt.reported_with(facts.columns))
    facts = find(work, facts)
    row = claim.finish(**facts.columns, newest_audits=work.writer.newest_audits)
    now = current_tables(lake)
    return RebuildSummary(row, now, Changes.between(before.audit_id, then, now))
