"""One audit, from the claim to the ledger's row: plan, read, replay.

    claim a number -> delete what unfinished audits left -> plan -> stage 1 -> stage 2 -> history -> current tables
    -> findings -> ledger

History is committed before the current tables. The ledger's row is last, and nothing counts without it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from kgroups_spark.audit.findings import find
from kgroups_spark.audit.log_source import LogSource, open_source
from kgroups_spark.audit.night import audit_night, decide_again, restored_state
from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.audit.plan import (
    DEFAULT_DELETE_RETENTION_MS,
    DeleteRetention,
    known_corrupt,
    plan_audit,
    require_readable,
)
from kgroups_spark.audit.rebuild import rebuild
from kgroups_spark.audit.result import AuditResult, audit_state_logs, ledger_facts
from kgroups_spark.audit.same_log import KnownReadings
from kgroups_spark.audit.state_log_plan import NamingWriter, complete_share_partitions, plan_state_logs
from kgroups_spark.audit.summary import AuditSummary, Changes, CurrentTables, current_tables
from kgroups_spark.audit.work import AuditWork, Moment, intention, saved_state
from kgroups_spark.errors import KgroupsError, attempt
from kgroups_spark.lake.as_of_audit import tidy_logs
from kgroups_spark.lake.claim import Claim, clear_up, gone_tables, make_again, require_newest
from kgroups_spark.lake.hadoop_storage import reported_in_one_line, use_hadoops_storage
from kgroups_spark.lake.lake import CHECKPOINT_INTERVAL, Lake
from kgroups_spark.lake.ledger import AuditRow, Ledger, readings_backwards
from kgroups_spark.lake.writer import LakeWriter, make_writable
from kgroups_spark.words import counted, to_epoch_ms

# The interval of a table log's checkpoints, up to which it can be cleaned up.
TIDIES_EVERY = CHECKPOINT_INTERVAL

__all__ = ["AuditOptions", "AuditSummary", "run_audit"]


def run_audit(spark: SparkSession, options: AuditOptions) -> AuditSummary:
    """Brings the lake up to date with the log. Raises KgroupsError; then none of its rows count, and the next audit
    deletes them."""
    use_hadoops_storage(spark)
    with open_source(options) as source:
        return _run(spark, options, source)


def _run(spark: SparkSession, options: AuditOptions, source: LogSource) -> AuditSummary:
    settings = source.settings
    lake = Lake.create(spark, options.lake)
    why = make_writable(lake)
    before_claim = lake.without_memory()
    last = Ledger(before_claim).last_finished()
    _require_log_of(before_claim, last, source, options)
    gone = gone_tables(lake)
    newest_audits = require_newest(before_claim, last)
    meant = intention(settings.release_version, source.name, gone)
    with Claim.take(lake, take_over=options.take_over, **meant) as claim:
        before = claim.before
        make_again(claim.fence, gone)
        clear_up(claim)
        plan = plan_audit(
            source.logs,
            before,
            full=options.full,
            known_corrupt=known_corrupt(lake, before),
            delete_retention=_delete_retention(lake, before, settings.delete_retention_ms) if before else None,
            readings=_readings(lake, before, options),
        )
        states = plan_state_logs(
            source.state_logs,
            before,
            lake=lake,
            full=options.full,
            delete_retention_ms=options.delete_retention_ms or DEFAULT_DELETE_RETENTION_MS,
            accept=options.accept_log_change,
        )
        require_readable((plan, *states.plans.values()))
        work = AuditWork(
            lake,
            LakeWriter(lake, claim.audit_id, claim.check, newest_audits=newest_audits),
            plan,
            before,
            saved_state(lake, claim, settings.release_version, gone),
            settings,
            options.progress,
            source,
            chosen_partitions=options.partitions is not None,
            max_bytes_per_second=options.max_bytes_per_second,
            states=states,
        )
        return _audit(work, claim, [*source.notes, *filter(None, (why,)), *claim.notes])


def _require_log_of(lake: Lake, last: AuditRow | None, source: LogSource, options: AuditOptions) -> None:
    """Refuses another cluster's log, before a number is claimed."""
    if last is not None:
        readings = _readings(lake, last, options)
        plan = plan_audit(source.logs, last, full=options.full, readings=readings)
        states = plan_state_logs(source.state_logs, last, full=options.full, accept=options.accept_log_change)
        require_readable((plan, *states.plans.values()))


def _readings(lake: Lake, last: AuditRow | None, options: AuditOptions) -> KnownReadings | None:
    return None if last is None else KnownReadings.of(lake, last, accept=options.accept_log_change)


def _delete_retention(lake: Lake, before: AuditRow, delete_retention_ms: int) -> DeleteRetention:
    return DeleteRetention.since(before, partial(readings_backwards, lake, before.audit_id - 1), delete_retention_ms)


def _audit(work: AuditWork, claim: Claim, notes: list[str]) -> AuditSummary:
    lake, before, state = work.lake, claim.before, work.state
    # An unfinished audit may have left rows in the current tables. They must be deleted, even if there are no new
    # records.
    must_rewrite = state.must_be_rebuilt or before is None or claim.unfinished
    is_new = bool(work.plan.new_ranges or work.plan.read_again or work.states.is_new or must_rewrite)
    is_new |= bool(work.plan.replaced)
    lake.replaced = work.replaced
    then = current_tables(lake, work.then) if before is not None and is_new else None
    rebuilt = None
    if state.must_be_rebuilt:
        rebuilt = rebuild(work)
        work = replace(work, state=rebuilt.state, has_decoded_again=rebuilt.has_decoded_again)
    elif work.plan.replaced:
        work = replace(work, state=restored_state(work))
    if is_new:
        states = audit_state_logs(work, from_history=rebuilt is not None)
        if work.states.shards:
            work = replace(work, writer=NamingWriter.of(work.writer))
        result = audit_night(work)
        result = replace(result, states=states)
        if states.share_partitions is not None:
            complete_share_partitions(work.writer, states.share_partitions)
        # A copy would read the names again.
        if result.plan is not None and result.plan is not work.plan:
            work = replace(work, plan=result.plan)
    else:
        result = AuditResult(Moment.of(work, []))
        if _decides_otherwise(work, result.moment):
            work.progress("deciding what expires")
            decide_again(work, result.moment.as_of_ms)
    facts = ledger_facts(work, result, [*notes, *_ask_for_topic_offsets(work, result)])
    if rebuilt is not None:
        facts = replace(facts, columns=rebuilt.reported_with(facts.columns))
    facts = find(work, facts, result.progress, result.mixed)
    row = claim.finish(**facts.columns, newest_audits=work.writer.newest_audits)
    summary = _summary(lake, row, then, before)
    return replace(summary, shortfall=facts.shortfall, failures=(*summary.failures, *_tidied(lake, row.audit_id)))


def _ask_for_topic_offsets(work: AuditWork, result: AuditResult) -> list[str]:
    """Appends the cluster's answers to `topic_offsets`; notes on missing answers. The rows read count either way."""
    cluster = work.source.cluster if work.source is not None else None
    if cluster is None:
        return []
    # Imported here, like all code for a cluster, because kafka-python is slow to import.
    from kgroups_spark.audit.cluster_facts import (
        asked_partitions,
        topic_offsets,
        topic_offsets_notes,
        topic_offsets_table,
    )

    asked = asked_partitions(work.lake, work.audit_id)
    work.progress(f"asking for the ends of {counted(len({topic for topic, _ in asked}), 'topic')}")
    try:
        rows = topic_offsets_table(topic_offsets(cluster, asked), work.audit_id, datetime.now(UTC))
    except KgroupsError as error:
        return [f"could not fetch log start and end of topics with committed offsets: {error}"]
    work.writer.append_table("topic_offsets", rows)
    result.rows_added["topic_offsets"] += rows.num_rows
    return topic_offsets_notes(rows)


def _decides_otherwise(work: AuditWork, moment: Moment) -> bool:
    """Whether this audit's decisions, by the same release, would differ from those of the last audit."""
    assert work.before is not None and work.before.as_of is not None
    then = to_epoch_ms(work.before.as_of), work.before.retention_ms
    return then != (moment.as_of_ms, work.settings.retention_ms)


def _tidied(lake: Lake, audit_id: int) -> list[str]:
    """Cleans up the tables' logs now and then, for lakes without maintenance. The audit has already finished, so a
    failure is noted and left to a later audit."""
    if audit_id % TIDIES_EVERY:
        return []

    def tidy() -> None:
        with reported_in_one_line("the lake could not be written"):
            tidy_logs(lake, audit_id)

    _, failure = attempt("cleaning up the tables' logs", tidy)
    return [failure] if failure else []


def _summary(lake: Lake, row: AuditRow, then: CurrentTables | None, before: AuditRow | None) -> AuditSummary:
    """The summary of the audit, which has already finished, so nothing here may fail."""
    now, no_now = attempt("counting the tables", lambda: current_tables(lake))
    changes, no_changes = attempt("comparing with the audit before", lambda: _changes(before, then, now))
    failures = tuple(note for note in (no_now, no_changes) if note)
    return AuditSummary(row, now or CurrentTables(), changes, failures)


def _changes(before: AuditRow | None, then: CurrentTables | None, now: CurrentTables | None) -> Changes | None:
    return None if then is None or before is None or now is None else Changes.between(before.audit_id, then, now)
