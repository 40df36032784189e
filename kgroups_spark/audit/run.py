"""One audit, step by step: begin, read, replay, write, finish. At the end also `kgroups rebuild`.

    begin    claim a number -> delete what unfinished audits left -> plan -> [rebuild]
    read     ranges of the log -> rows of history                                              tasks
    read on  records that the log received meanwhile                                           tasks
    settle   without partitions that were given up; the moment of the decisions
    replay   saved state, rows of history -> rows of all other tables, new state               tasks; a shard each
    write    history -> current tables -> saved state
    finish   findings -> ledger

History is committed before the current tables. The ledger's row is last, and nothing counts without it.
`run_audit` takes all steps, by any engine; jobs/nightly_audit.py shows them as a pipeline of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from kgroups_spark.audit.log_source import AuditSettings, LogSource, RetentionSource, open_source, retention
from kgroups_spark.audit.options import AuditOptions, require_partition_count, silent
from kgroups_spark.audit.plan import (
    DEFAULT_DELETE_RETENTION_MS,
    AuditPlan,
    DeleteRetention,
    known_corrupt,
    plan_audit,
    read_on,
    require_readable,
)
from kgroups_spark.audit.rebuild import rebuild
from kgroups_spark.audit.result import (
    AuditResult,
    AuditSummary,
    CurrentTables,
    LedgerFacts,
    Rebuilt,
    audit_state_logs,
    changes_since,
    current_files,
    current_tables,
    find,
    ledger_facts,
)
from kgroups_spark.audit.same_log import KnownReadings
from kgroups_spark.audit.state_log_plan import NamingWriter, StatePlan, complete_shares, plan_state_logs
from kgroups_spark.audit.work import AuditWork, Moment, intention, read_again, replace_current, saved_state
from kgroups_spark.errors import KgroupsError, UsageError, attempt
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.claim import Claim, clear_up, gone_tables, make_again, require_newest
from kgroups_spark.lake.lake import Engine, Lake
from kgroups_spark.lake.last_finished import TABLES_ALONE
from kgroups_spark.lake.ledger import AuditRow, Ledger
from kgroups_spark.lake.local import Local
from kgroups_spark.lake.store import TableFiles
from kgroups_spark.lake.writer import make_writable
from kgroups_spark.replay.history_rows import COLUMNS
from kgroups_spark.replay.ranges import RangeProgress, newly_quarantined
from kgroups_spark.replay.shard_states import Stored
from kgroups_spark.replay.sinks import AGAIN, PASSED_ON, ROWS, Given, Made, Sink, Work, sink_of
from kgroups_spark.replay.stages import (
    EXPIRY,
    TRAFFIC,
    Ranges,
    ShardTask,
    progress_from_json,
    read_tasks,
    replay_shards,
    rows_of_ranges,
)
from kgroups_spark.replay.state_logs import ClusterFact, Settings
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.rows import table_of_rows
from kgroups_spark.tables.schemas import CHECKPOINTS, STATE_LOG_TABLES, TABLES
from kgroups_spark.words import counted, named_partitions, to_epoch_ms

if TYPE_CHECKING:
    from kgroups_spark.spark.runner import SparkRunner


# The columns of quarantine that identify the records that an audit has decoded again.
DECODED_AGAIN = ["offsets_partition", "resolved_by", *COLUMNS]
HISTORY = [name for name, table in TABLES.items() if table.kind == "history" and name not in STATE_LOG_TABLES]


@dataclass
class Step:
    """One action of an audit. Its tasks get the rows of an RDD, write rows of tables as Parquet files, and report them.
    By Spark these two are the same:

        step.end(step.rows.mapPartitions(step.function))
        step.run()

    `what`: its line of progress.
    """

    work: AuditWork
    sink: Sink
    given: Given
    of_task: Work
    what: str
    _made: Made | None = None

    @property
    def rows(self) -> Any:
        """An RDD of record batches with a row for each range of the log, or for each shard; a Spark partition has those
        of one task, in their order, and the files that are carried to it."""
        return self._spark.rows(*self.given)

    @property
    def function(self) -> Any:
        return self._spark.function(self.sink.task(self.of_task))

    def end(self, reports: Any) -> None:
        """Runs the action, whose RDD of reports it gets."""
        with self._spark.watched(self.work.progress, self.what):
            self._made = self.sink.took(self._spark.collected(reports))

    def run(self) -> None:
        """The same by any engine."""
        with self.sink.runner.watched(self.work.progress, self.what):
            self._made = self.sink.run(self.given, self.of_task)

    @property
    def made(self) -> Made:
        """Raises KgroupsError if the step has not ended."""
        if self._made is None:
            raise KgroupsError(f"a step of the audit has not ended: {self.what}")
        return self._made

    @property
    def _spark(self) -> SparkRunner:
        return cast("SparkRunner", self.sink.runner)


def _read(work: AuditWork, sink: Sink, tasks: Sequence[Ranges]) -> Generator[Step, None, list[RangeProgress]]:
    if not tasks:
        return []
    ranges = [each for of_task in tasks for each in of_task]
    function = partial(read_tasks, ranges, work.read_context(len(tasks)))
    yield (step := Step(work, sink, Given(rows_of_ranges(tasks)), function, work.reading))
    progress = list(map(progress_from_json, step.made.facts))
    read = {(each.offsets_partition, each.number) for each in progress}
    given_up = {each.offsets_partition for each in progress if each.given_up is not None}
    _require_all(
        "read",
        (
            each.offsets_partition
            for each in ranges
            if not each.only_if_missing
            and each.offsets_partition not in given_up
            and (each.offsets_partition, each.number) not in read
        ),
    )
    return progress


def replay_step(work: AuditWork, sink: Sink, progress: list[RangeProgress], moment: Moment) -> Step:
    """Replays every shard from its saved state, with its new history: a key, its values in log order and a state give
    rows and a new state, as in mapGroupsWithState."""
    new, again = sink.tables((ROWS, PASSED_ON)), sink.tables((AGAIN,))
    stored = Stored(work.lake, [*new.values(), *again.values()])
    given = {TRAFFIC: new[TRAFFIC]}
    if work.state.audit_id is not None:
        given |= stored.left_by(LakeAsOfAudit(work.lake, work.audit_id), CHECKPOINTS, work.state.audit_id)
    if work.before is not None:
        given |= stored.left_by(work.then, EXPIRY)
    quarantine = stored.table("decoded_again", "quarantine", DECODED_AGAIN) if work.state.has_decoded_again else None
    task = ShardTask(
        work.night(progress, moment.as_of_ms),
        work.ends(progress),
        StoredHistory(new),
        is_night=True,
        state_of=work.state.audit_id,
        given=given,
        read_again=read_again(work.plan, progress),
        again=StoredHistory(again),
        decoded_again=quarantine,
    )
    tasks = work.shards_by_task(progress)
    what = f"replaying {counted(len(work.shards), 'coordinator shard')}"
    return Step(work, sink, stored.given_to(tasks), partial(replay_shards, task.outputs, tasks), what)


def night_result(sink: Sink, replay: Step, progress: list[RangeProgress], moment: Moment) -> AuditResult:
    """The result of a night whose replay has ended. Raises KgroupsError if a shard was not replayed."""
    made = replay.made
    replayed = {shard for each in made.facts for shard in each["shards"]}
    _require_all("replayed", (shard for shard in replay.work.shards if shard not in replayed))
    rows_added = Counter({name: rows for name, rows in sink.rows.items() if TABLES[name].kind == "history"})
    quarantined = newly_quarantined(progress) + Counter(load_would_fail=made.rows["quarantine"])
    return AuditResult(moment, progress, rows_added, quarantined)


def _require_all(done: str, left: Iterable[int]) -> None:
    if missing := sorted({*left}):
        raise KgroupsError(f"{named_partitions(missing)} was not {done} whole: rows of the step were left out")


FACTS = "cluster_facts"

__all__ = ["Audit", "AuditOptions", "AuditSummary", "begin_audit", "run_audit"]


def run_audit(spark: Engine, options: AuditOptions) -> AuditSummary:
    """Brings the lake up to date. Raises KgroupsError; then none of its rows count, and the next audit deletes them."""
    with begin_audit(spark, options) as audit:
        if audit.has_work:
            audit.replay_state_logs()
            for step in audit.read():
                step.run()
            audit.replay().run()
            audit.append_history()
            audit.replace_current()
            audit.save_state()
        return audit.finish()


class Audit:
    """An audit that has begun. If it `has_work`, all of STEPS follow, in their order; `finish` is the last one. They
    raise KgroupsError; then nothing that the audit wrote counts."""

    STEPS = ("replay_state_logs", "read", "replay", "append_history", "replace_current", "save_state")

    def __init__(self, work: AuditWork, claim: Claim, notes: list[str], stack: ExitStack) -> None:
        lake, before, must_rebuild = work.lake, work.before, work.state.why_rebuilt is not None
        self._work, self._claim, self._notes, self._stack = work, claim, notes, stack
        self._left = [*self.STEPS]
        lake.replaced = work.replaced
        # An unfinished audit may have left rows in the current tables, which must be deleted without new records, too.
        must_rewrite = must_rebuild or before is None or bool(claim.unfinished)
        self.has_work = must_rewrite or work.plan.is_new or work.states.is_new or _decides_otherwise(work)
        self._then = current_files(lake, work.then) if self.has_work and before is not None else None
        self._from_history = must_rebuild
        self._rebuilt = rebuild(work) if self.has_work and (must_rebuild or work.plan.replaced) else None

    def replay_state_logs(self) -> None:
        """Reads, replays and commits the two other logs, in one action of their own."""
        self._take("replay_state_logs")
        self._states = audit_state_logs(self._work, from_history=self._from_history)

    def read(self) -> Iterator[Step]:
        """The actions that read what is new, one after the other: a second one for what the log received meanwhile, if
        needed. Each record is read only once, because the cleaner may run between two reads."""
        work, sink = self._work, self._stack.enter_context(sink_of(self._work.writer, for_replay=True))
        progress = yield from _read(work, sink, work.ranges_by_task)
        if more := read_on(work.plan, progress):
            progress += yield from _read(work, sink, work.by_task(more))
        self._sink = sink
        self._take("read")
        self._progress = self._work.settle(progress)
        self._moment = Moment.of(self._work, self._progress)

    def replay(self) -> Step:
        self._take("replay")
        self._replay = replay_step(self._work, self._sink, self._progress, self._moment)
        return self._replay

    def append_history(self) -> None:
        """A Delta commit for each table of history."""
        self._take("append_history")
        self._result = night_result(self._sink, self._replay, self._progress, self._moment)
        self._work.progress(f"committing {self._sink.size}")
        for name in HISTORY:
            self._sink.append(self._work.writer, name)

    def replace_current(self) -> None:
        """The same for each table with the current state, whose rows are replaced."""
        self._take("replace_current")
        replace_current(self._work, self._sink, self._progress)

    def save_state(self) -> None:
        """The state from which the next audit starts; that of the last one stays until this one has finished."""
        self._take("save_state")
        self._sink.replace(self._work.writer, CHECKPOINTS, self._work.state.kept_audit_id)
        self._stack.close()

    def finish(self) -> AuditSummary:
        """Findings, then the ledger's row: now all of it counts."""
        work = self._work
        if not self.has_work:
            result = AuditResult(Moment.of(work, []))
        elif self._left:
            raise KgroupsError(f"the audit cannot finish without its step {self._left[0]}")
        else:
            result = replace(self._result, states=self._states)
            complete_shares(work.writer, self._states.shares)
        if work.facts:
            rows = table_of_rows(FACTS, ClusterFact._fields, work.facts, audit_id=work.audit_id)
            work.writer.append_table(FACTS, rows)
            result.rows_added[FACTS] += len(work.facts)
        notes = self._notes + _ask_for_topic_offsets(work, result)
        row, facts = _finished(work, self._claim, result, notes, self._rebuilt)
        return replace(_summary(work.lake, row, work.before, self._then), shortfall=facts.shortfall)

    def _take(self, step: str) -> None:
        if not self._left or self._left[0] != step:
            raise KgroupsError(f"the steps of an audit are {', '.join(self.STEPS)}: {step} cannot come here")
        del self._left[0]


@contextmanager
def begin_audit(spark: Engine, options: AuditOptions) -> Iterator[Audit]:
    """An audit, in the block: it has a number and a plan, and the lake is free of what unfinished audits left."""
    if not isinstance(spark, Local):
        from kgroups_spark.lake.hadoop import use_hadoops_storage

        use_hadoops_storage(spark)
    with ExitStack() as stack:
        source = stack.enter_context(open_source(options))
        lake = Lake.create(spark, options.lake)
        if options.records is not None and not lake.runner.is_here:
            raise UsageError(
                "--records makes segment files on this machine, which the cluster's tasks cannot see: audit them here, "
                "by --engine local or a session of local[*]"
            )
        why = make_writable(lake)
        last = Ledger(lake).last_finished()
        if last is not None:  # another cluster's log is refused before a number is claimed
            _planned(lake, last, source, options, is_claimed=False)
        gone = gone_tables(lake)
        newest_audits = require_newest(lake, last)
        meant = intention(source.settings.release_version, source.name, gone)
        claim = stack.enter_context(Claim.take(lake, take_over=options.take_over, **meant))
        make_again(claim.fence, gone)
        clear_up(claim)
        facts = _known_facts(lake, newest_audits, source)
        settings = source.settings._replace(states=Settings.of(facts))
        plan, states = _planned(lake, claim.before, source, options, is_claimed=True)
        work = AuditWork(
            lake,
            NamingWriter(lake, claim.audit_id, claim.check, newest_audits=newest_audits),
            plan,
            claim.before,
            saved_state(lake, claim, settings.release_version, gone),
            settings,
            options.progress,
            source,
            chosen_partitions=options.partitions is not None,
            max_bytes_per_second=options.max_bytes_per_second,
            states=states,
            facts=facts if source.facts else (),
        )
        files = stack.enter_context(ExitStack())
        yield Audit(work, claim, [*source.notes, *filter(None, (why,)), *claim.notes], files)


def _known_facts(
    lake: Lake, newest_audits: Mapping[str, int], source: LogSource | None = None
) -> tuple[ClusterFact, ...]:
    """The facts of the cluster; without one those of the last audit that has some, but for those of options."""
    given = source.facts if source else ()
    if source and source.cluster:
        return given
    last = [Condition("audit_id", "==", newest_audits.get(FACTS, 0))]
    before = [ClusterFact(**row) for row in lake.rows(FACTS, columns=ClusterFact._fields, conditions=last).to_pylist()]
    chosen = {each.name for each in given}
    return (*(each for each in before if each.name not in chosen), *given)


def _planned(
    lake: Lake, last: AuditRow | None, source: LogSource, options: AuditOptions, *, is_claimed: bool
) -> tuple[AuditPlan, StatePlan]:
    """The new part of all logs since the last finished audit. Raises if no partition can be read, or for another log.
    Only the plan of a claimed audit knows what must be read again, and the damage in quarantine."""
    retention_ms = source.settings.delete_retention_ms
    plan = plan_audit(
        source.logs,
        last,
        full=options.full,
        known_corrupt=known_corrupt(lake) if last and is_claimed else None,
        delete_retention=DeleteRetention.since(lake, last, retention_ms) if last and is_claimed else None,
        readings=KnownReadings.of(lake, last, accept=options.accept_log_change) if last else None,
    )
    states = plan_state_logs(
        source.state_logs,
        last,
        lake=lake if is_claimed else None,
        full=options.full,
        delete_retention_ms=options.delete_retention_ms or DEFAULT_DELETE_RETENTION_MS,
        accept=options.accept_log_change,
    )
    require_readable((plan, *states.plans.values()))
    return plan, states


def _finished(
    work: AuditWork, claim: Claim, result: AuditResult, notes: list[str], rebuilt: Rebuilt | None
) -> tuple[AuditRow, LedgerFacts]:
    facts = ledger_facts(work, result, notes, rebuilt)
    find(work, facts, result)
    return claim.finish(**facts.columns, newest_audits=work.writer.newest_audits), facts


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


def _decides_otherwise(work: AuditWork) -> bool:
    """Whether this audit's decisions, without new records, would differ from those of the last audit."""
    assert work.before is not None and work.before.as_of is not None
    then = to_epoch_ms(work.before.as_of), work.before.retention_ms
    return then != (Moment.of(work, []).as_of_ms, work.settings.retention_ms)


def _summary(lake: Lake, row: AuditRow, before: AuditRow | None, then: TableFiles | None) -> AuditSummary:
    """The summary of the audit, which has already finished, so nothing here may fail."""
    now, no_now = attempt("counting the tables", lambda: current_tables(lake, current_files(lake)))
    changed, no_changes = None, None
    if before is not None and then is not None and now is not None:
        sides = lake, before.audit_id, then, now
        changed, no_changes = attempt("comparing with the audit before", lambda: changes_since(*sides))
    failures = tuple(note for note in (no_now, no_changes) if note)
    return AuditSummary(row, CurrentTables() if now is None else now, changed, failures)


# `kgroups rebuild`: every derived table, rebuilt from history alone, under a claim like an audit's.


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
        # A default belongs to the release: another release may have another default.
        known_ms = None if before.retention_source == "default" else before.retention_ms
        was: RetentionSource = "broker" if before.retention_source == "broker" else "option"
        retention_ms, source = retention(self.retention_ms, known_ms, was, release_version)
        return AuditSettings(
            release_version,
            retention_ms,
            source,
            DEFAULT_DELETE_RETENTION_MS,
            clock_ms,
            to_epoch_ms(before.as_of) if self.as_of is None and before.as_of is not None else self.as_of,
            self.offsets_partitions,
        )


@dataclass(frozen=True)
class RebuildSummary(AuditSummary):
    def _read(self) -> Iterator[str]:
        partitions = counted(len(self.audit.partitions or ()), "partition")
        yield f"audit {self.audit.audit_id}: all tables rebuilt from the history of {partitions}"


def run_rebuild(spark: Engine, options: RebuildOptions) -> RebuildSummary:
    """Rebuilds the tables. Raises KgroupsError; then none of its rows count, and the next audit repeats the rebuild."""
    lake = Lake.open(spark, options.lake)
    last = _last_finished(lake)
    require_partition_count(options.offsets_partitions, (each.offsets_partition for each in last.partitions or ()))
    gone = gone_tables(lake)
    newest_audits = require_newest(lake, last, rebuilds=True)
    why = make_writable(lake)
    meant = intention(options.settings(last).release_version, TABLES_ALONE, gone)
    with Claim.take(lake, take_over=options.take_over, **meant) as claim:
        make_again(claim.fence, gone)
        clear_up(claim)
        notes, before = [*filter(None, (why,)), *claim.notes], claim.before
        assert before is not None
        known = Settings.of(_known_facts(lake, newest_audits))
        settings = options.settings(before)._replace(states=known)
        work = AuditWork(
            lake,
            NamingWriter(lake, claim.audit_id, claim.check, newest_audits=newest_audits),
            AuditPlan([], before.cluster_id),
            before,
            saved_state(lake, claim, settings.release_version)._replace(why_rebuilt=None),
            settings,
            options.progress,
            chosen_partitions=True,
            states=StatePlan(before=before),
        )
        then = current_files(lake, work.then)
        states = audit_state_logs(work, from_history=True)
        result = AuditResult(Moment.of(work, []), states=states)
        rebuilt = rebuild(work, as_of_ms=result.moment.as_of_ms)
        complete_shares(work.writer, states.shares)
        row, _ = _finished(work, claim, result, notes, rebuilt)
        return RebuildSummary(**vars(_summary(lake, row, before, then)))


def _last_finished(lake: Lake) -> AuditRow:
    found = Ledger(lake).last_finished()
    if found is None:
        raise UsageError(
            f"no audit of {lake.location} has finished, so there is no history yet: run kgroups audit first"
        )
    return found
