"""The results of an audit: its row of the ledger, its findings, its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset

from kgroups_spark.audit.plan import AuditPlan, Uncommitted, missing_files_note, uncommitted_notes, uncommitted_offsets
from kgroups_spark.audit.state_log_plan import SHARES, progress_of
from kgroups_spark.audit.work import NAMES_REPORTED, AuditWork, Moment, correction_notes, new_times
from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_entries import STATE_FORMAT, StateRow
from kgroups_spark.errors import attempt
from kgroups_spark.findings.finders import FINDINGS, connected, has_looked, look
from kgroups_spark.findings.finding import Evidence, Finding, LargeRecord, Row, TimesOff, TransactionState
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import TABLES_ALONE, finished_backwards
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress, record_counts
from kgroups_spark.lake.store import TableFiles, total_rows
from kgroups_spark.lake.writer import newest_state, rows_of_state
from kgroups_spark.messages.coordinator_records import TRANSACTION_LOG
from kgroups_spark.package_data import __version__
from kgroups_spark.replay.counts import MOST_PARTITIONS
from kgroups_spark.replay.range_decoder import MOST_ROUNDS, is_unsettled
from kgroups_spark.replay.ranges import (
    CLOCKS_DIFFER_MS,
    LogTimes,
    RangeProgress,
    newest_time,
    newly_quarantined,
    not_corrected_notes,
)
from kgroups_spark.replay.shard_states import Stored
from kgroups_spark.replay.sinks import sink_of
from kgroups_spark.replay.state_logs import (
    NAMES,
    RECORDS,
    STATE_TABLE,
    StateLogHistory,
    StateShardRead,
    StateTask,
    read_and_replay_shards,
    read_from_json,
)
from kgroups_spark.replay.stored_history import StoredTable, TaskShards
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER
from kgroups_spark.spark.interruption import uninterrupted
from kgroups_spark.tables.columns import Condition, all_may_hold, rows_that_meet
from kgroups_spark.tables.rows import constant, table_of_rows, with_columns
from kgroups_spark.tables.schemas import STATE_LOG_TABLES, TABLES, arrow_schema
from kgroups_spark.words import (
    by_weight,
    counted,
    first_of,
    format_duration,
    format_utc,
    named_partitions,
    number_ranges,
    sized,
    to_datetime,
    to_epoch_ms,
)

# `__share_group_state` and `__transaction_state` in an audit: one Spark action, in which a task per shard reads,
# decodes and replays, then their tables are committed. Without such logs, nothing is done here.


HISTORY = tuple(name for name in STATE_LOG_TABLES if TABLES[name].kind == "history")
NOW = tuple(name for name in STATE_LOG_TABLES if TABLES[name].kind == "current" and name not in SHARES)


@dataclass(frozen=True)
class StateLogsResult:
    """The results of an audit of these logs; empty where there are none."""

    rows_added: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    reads: tuple[StateShardRead, ...] = ()
    shares: tuple[pa.Table, ...] = ()  # SHARES as stored, not committed: audit/state_log_plan.py completes them


def audit_state_logs(work: AuditWork, *, from_history: bool = False) -> StateLogsResult:
    """Reads, replays and commits new records; `from_history`: the state is rebuilt from history. Every known partition
    is replayed, so that the current tables are whole."""
    shards = work.states.shards
    if not shards:
        return StateLogsResult()
    work.progress(f"reading and replaying {counted(len(shards), 'partition')} of share-group and transaction state")
    stored, tasks = Stored(work.lake), _tasks(work)
    history = _history(work, stored, from_history=from_history)
    task = StateTask(tuple(shards), work.read_context(len(tasks.shards)), work.settings.states, history)
    with sink_of(work.writer) as sink:
        made = sink.run(stored.given_to(tasks), partial(read_and_replay_shards, task, tasks))
        reads = list(map(read_from_json, made.facts))
        work.states = work.states.settled(reads)
        for name in HISTORY:
            sink.append(work.writer, name)
        for name in NOW:
            sink.replace(work.writer, name)
        sink.replace(work.writer, STATE_TABLE, history.saved_audit_id)
        shares = tuple(sink.table(work.writer, name) for name in SHARES)
    return StateLogsResult(
        Counter({name: made.rows[name] for name in HISTORY}),
        newly_quarantined(each for read in reads for each in read.progress),
        tuple(reads),
        shares,
    )


def _tasks(work: AuditWork) -> TaskShards:
    """The shards of each task. A shard's weight is the bytes to read. Small logs are one task."""
    sizes, records = Counter[int](), Counter[int]()
    for each in work.states.shards:
        sizes[each.partition] += sum(log_range.size_bytes for log_range in each.ranges)
    for entry in work.before.state_partitions if work.before else ():
        records[entry.offsets_partition] += entry.end_offset  # at the most
    # Replaying a record of history costs as much as reading a hundred bytes.
    tasks = FETCHERS_PER_BROKER if work.is_live else work.tasks_for(sizes.total() + 100 * records.total())
    of_each = by_weight(sorted(sizes), sizes.__getitem__, tasks)
    return TaskShards(tuple(map(tuple, of_each)), {number: records[number] for number in sizes})


def _history(work: AuditWork, stored: Stored, *, from_history: bool) -> StateLogHistory:
    """How tasks get the saved state, and in a rebuild the history up to the last finished audit."""
    last = work.before.audit_id if work.before else 0
    saved = newest_state(work.lake, STATE_TABLE, last)
    tables: dict[str, StoredTable] = {}
    if saved is not None:
        columns = ["audit_id", "log", "state_partition", *StateRow._fields]
        conditions = rows_of_state(STATE_TABLE, saved)
        tables[STATE_TABLE] = stored.table(STATE_TABLE, STATE_TABLE, columns, conditions=conditions)
    for topic, name in RECORDS.items() if from_history else ():
        columns = ["audit_id", "state_partition", "log_offset", "log_timestamp", "record_type", *NAMES[topic]]
        columns += [each for each in ("value_version", "layout", "value") if each in TABLES[name].columns.names]
        tables[name] = stored.table(name, name, columns, conditions=[Condition("audit_id", "<=", last)])
    return StateLogHistory(tables, saved, last, from_history, work.lake.replaced)


EPOCH = to_datetime(0)


@dataclass(frozen=True)
class AuditResult:
    """The results of the two stages: the moment of the decisions, the progress of each range, rows added by history
    table, and quarantined records by reason. `states`: the results of the two other logs. `mixed`: partitions committed
    both in transactions and outside them."""

    moment: Moment
    progress: list[RangeProgress] = field(default_factory=list)
    rows_added: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    states: StateLogsResult = field(default_factory=StateLogsResult)


@dataclass(frozen=True)
class Rebuilt:
    """The records of quarantine that a rebuild decoded: rows by table, and records by type and version."""

    rows_added: Counter[str] = field(default_factory=Counter)
    record_counts: Counter[tuple[int, int | None]] = field(default_factory=Counter)


class Shortfall(NamedTuple):
    """Partitions that the audit did not read completely."""

    missing: tuple[int, ...] = ()  # not given, although the topic has them
    left: tuple[int, ...] = ()  # refused, or not readable to their ends
    unconfirmed: tuple[int, ...] = ()  # their last batch was held back
    unsettled: tuple[int, ...] = ()  # cleaned faster than they could be read
    hidden: tuple[tuple[int, Uncommitted], ...] = ()  # by a checkpoint of high watermarks that is older than the log
    # Partitions of other logs that were not read completely, as __transaction_state-3.
    others: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self)


class LedgerFacts(NamedTuple):
    """The columns of the ledger's row `finished`."""

    columns: dict[str, Any]
    shortfall: Shortfall = Shortfall()


def ledger_facts(work: AuditWork, result: AuditResult, notes: list[str], rebuilt: Rebuilt | None = None) -> LedgerFacts:
    """The facts of an audit whose rows are written. `notes`: those of its steps, besides the plan's and result's."""
    rebuilt = rebuilt or Rebuilt()
    settings, moment = work.settings, result.moment
    partitions = _partitions(work, result.progress, moment)
    counts = sum((each.record_counts for each in result.progress), rebuilt.record_counts)
    missing, gone = _missing(work, result)
    latest_ms, reads = settings.clock_ms + CLOCKS_DIFFER_MS, result.states.reads
    hidden = uncommitted_offsets(work.plan, result.progress, latest_ms)
    hidden_of = {
        topic: uncommitted_offsets(plan, progress_of(topic, reads), latest_ms)
        for topic, plan in work.states.plans.items()
    }
    short = _shortfall(work, result, missing, hidden, hidden_of)
    all_notes = [
        *work.plan.losses,
        *_notes_on_log(work.plan, result.progress, hidden),
        *correction_notes(work.lake, work.audit_id, work.plan, result.progress),
        *notes,
        *gone_before_we_came(work, partitions),
        *_missing_notes(work, result, missing, gone),
        *filter(None, [work.state.why_rebuilt]),
        *moment.notes,
        *_notes_on_states(work, reads, hidden_of),
    ]
    if decoded := rebuilt.record_counts.total():
        all_notes.append(f"{counted(decoded, 'record')} of quarantine could be decoded now and moved into history")
    rows_added = result.rows_added + result.states.rows_added + rebuilt.rows_added
    return LedgerFacts(
        {
            "as_of": to_datetime(moment.as_of_ms),
            "retention_ms": settings.retention_ms,
            "retention_source": settings.retention_source,
            "release_version": settings.release_version,
            "rules_version": RULES_VERSION,
            "state_format": STATE_FORMAT,
            "source": TABLES_ALONE if work.source is None else work.source.name,
            "cluster_id": work.plan.cluster_id,
            "newest_log_timestamp": None if moment.newest_ms is None else to_datetime(moment.newest_ms),
            "partitions": tuple(partitions),
            "state_partitions": tuple(work.states.entries(result.states.reads)),
            "rows_added": {name: rows for name, rows in sorted(rows_added.items()) if rows},
            "quarantined": dict(sorted((result.quarantined + result.states.quarantined).items())),
            "record_counts": record_counts(counts),
            "notes": tuple(all_notes),
            "replaced_ranges": work.replaced.ranges or None,
        },
        short,
    )


def _notes_on_log(
    plan: AuditPlan, progress: Sequence[RangeProgress], hidden: Mapping[int, Uncommitted]
) -> Iterator[str]:
    """The parts of a log that were not read, or not corrected, or perhaps not as they were at one moment."""
    yield from (*plan.notes, *plan.left_notes, *not_corrected_notes(progress))
    why = {each.offsets_partition: each.unconfirmed for each in progress if each.unconfirmed}
    for number in sorted(why):
        yield (
            f"the last batch of partition {number} was not read ({why[number]}). It will be once another batch follows "
            "it"
        )
    yield from (*uncommitted_notes(hidden), *missing_files_note(plan), *unsettled_note(unsettled(progress)))


def _notes_on_states(
    work: AuditWork, reads: Sequence[StateShardRead], hidden_of: Mapping[str, Mapping[int, Uncommitted]]
) -> Iterator[str]:
    for topic, missing in _missing_states(work):
        gone = f"{_are_gone(missing)} in the cluster: rows stay as they were last read"
        yield f"{topic}: {gone if work.is_live else _were_not_given(missing)}"
    yield from work.states.notes(reads)
    for topic, plan in work.states.plans.items():
        yield from (f"{topic}: {note}" for note in _notes_on_log(plan, progress_of(topic, reads), hidden_of[topic]))


def _shortfall(
    work: AuditWork,
    result: AuditResult,
    missing: Sequence[int],
    hidden: Mapping[int, Uncommitted],
    hidden_of: Mapping[str, Mapping[int, Uncommitted]],
) -> Shortfall:
    hidden_states = (f"{topic}-{n}" for topic, found in hidden_of.items() for n, each in found.items() if each.is_stale)
    not_whole = (
        f"{read.topic}-{each.offsets_partition}"
        for read in result.states.reads
        for each in read.progress
        if each.unconfirmed or is_unsettled(each)
    )
    not_given = () if work.is_live else (f"{topic}-{n}" for topic, numbers in _missing_states(work) for n in numbers)
    return Shortfall(
        missing=tuple(missing),
        left=tuple(sorted(work.plan.left)),
        unconfirmed=tuple(sorted({each.offsets_partition for each in result.progress if each.unconfirmed})),
        unsettled=unsettled(result.progress),
        hidden=tuple((number, each) for number, each in sorted(hidden.items()) if each.is_stale),
        others=tuple(sorted({*_not_planned(work), *not_given, *not_whole, *hidden_states})),
    )


def _not_planned(work: AuditWork) -> Iterator[str]:
    """The partitions of the other logs that could not be read when the audit was planned."""
    if work.source is not None:
        yield from work.source.states_without_answer
    for topic, plan in work.states.plans.items():
        yield from (f"{topic}-{number}" for number in plan.left)


def _missing_states(work: AuditWork) -> Iterator[tuple[str, list[int]]]:
    """The partitions of each other log that an earlier audit read, and that are not among those of this audit."""
    not_planned = {*_not_planned(work)}
    for topic, plan in work.states.plans.items():
        before = work.before.of_state_log(topic).partitions if work.before else ()
        missing = {p.offsets_partition for p in before or ()} - {p.offsets_partition for p in plan.partitions}
        if absent := sorted(number for number in missing if f"{topic}-{number}" not in not_planned):
            yield topic, absent


def _partitions(work: AuditWork, progress: list[RangeProgress], moment: Moment) -> list[PartitionProgress]:
    times: dict[int, list[LogTimes]] = {}
    for number, of_range in new_times(progress):
        times.setdefault(number, []).append(of_range)
    rows = []
    for row in work.partitions_read(progress):
        number = row.offsets_partition
        newest_ms = newest_time(times.get(number, ()), [moment.known[number]] if number in moment.known else ())
        rows.append(row._replace(newest_log_timestamp=None if newest_ms is None else to_datetime(newest_ms)))
    return rows


def gone_before_we_came(work: AuditWork, partitions: list[PartitionProgress]) -> list[str]:
    """A note on the records compacted away since the last audit; none for a first audit."""
    read_before = {p.offsets_partition for p in work.plan.partitions if p.before is not None}
    span = gone = 0
    for each in partitions:
        if each.offsets_partition in read_before:
            lost = 0 if each.lost_from is None or each.lost_to is None else each.lost_to - each.lost_from
            span += each.end_offset - each.start_offset + lost
            gone += each.offsets_missing + lost
    if not gone:
        return []
    # Never 0 for a part above zero, nor 100 for less than all.
    percent = "100" if gone == span else f"{min(99.9, max(0.1, 100 * gone / span)):.1f}"
    return [
        f"{percent} % of the night's offsets ({gone:,} of {span:,}) were compacted away before this audit; "
        "min.compaction.lag.ms above the audit interval on __consumer_offsets keeps them"
    ]


def unsettled(progress: Sequence[RangeProgress]) -> tuple[int, ...]:
    """Partitions that were cleaned faster than they could be read."""
    return tuple(sorted({each.offsets_partition for each in progress if is_unsettled(each)}))


def unsettled_note(numbers: Sequence[int]) -> list[str]:
    """Notes on these partitions, which may lack records."""
    return [
        f"{named_partitions(numbers)}: cleaned faster than the audit could read, {MOST_ROUNDS} times in a row: "
        "keys that change frequently may be stale or missing; the next audit reads on"
    ] * bool(numbers)


def _missing(work: AuditWork, result: AuditResult) -> tuple[list[int], list[int]]:
    """Partitions that this audit was not given although the topic has them or an earlier audit read them; and those
    that an earlier audit read and the topic no longer has. None if the options named the partitions to read."""
    if work.chosen_partitions:
        return [], []
    count = work.names.partition_count(result.progress)
    known = set(range(count or 0))
    known |= {p.offsets_partition for p in (work.before.partitions or ())} if work.before else set()
    absent = sorted(known - {p.offsets_partition for p in work.plan.partitions} - set(work.plan.left))
    gone = [number for number in absent if count is not None and number >= count]
    return [number for number in absent if number not in gone], gone


def _missing_notes(work: AuditWork, result: AuditResult, missing: Sequence[int], gone: Sequence[int]) -> Iterator[str]:
    if work.chosen_partitions and work.source is not None:
        planned = sorted(each.offsets_partition for each in work.plan.partitions)
        was = "was" if len(planned) == 1 else "were"
        yield f"only {named_partitions(planned)} {was} asked for: --partitions"
    count = work.names.partition_count(result.progress)
    if gone:
        yield f"{_are_gone(gone)} in the topic, which has {count}: rows stay as they were last read"
    if missing:
        yield _were_not_given(missing, count)
    if work.names.no_count_fits(result.progress):
        yield (
            f"no partition count up to {MOST_PARTITIONS:,} fits the names of all groups: a folder has the wrong "
            "number, or partitions were added to the topic; --offsets-partitions N shows which groups are in the wrong "
            "partition"
        )


def _are_gone(numbers: Sequence[int]) -> str:
    return f"{named_partitions(numbers)} {'is' if len(numbers) == 1 else 'are'} no longer"


def _were_not_given(missing: Sequence[int], count: int | None = None) -> str:
    """`count`: the number of the topic's partitions; None: unknown."""
    of = counted(len(missing), "partition") if count is None else f"{len(missing)} of {count} offsets partitions"
    verb = "was" if count is None and len(missing) == 1 else "were"
    return f"{of} {verb} not given: {number_ranges(missing)}; rows stay as they were last read"


# The findings of an audit: evidence from the lake as this audit leaves it, rows for the table `findings`.


def find(work: AuditWork, facts: LedgerFacts, result: AuditResult) -> None:
    """Appends the findings on the present tables. Adds their number to the facts, or a note if that failed."""
    work.progress("looking for findings")
    columns = facts.columns
    rows, _ = attempt("keeping findings", lambda: _found_before_as_now(work, facts))
    if rows is None:
        found, failure = attempt("looking for findings", lambda: _found_now(work, facts, result))
        rows, notes = found or (None, [failure])
        columns["notes"] += tuple(notes)
    if rows is not None:
        # Not in an attempt: an audit that lost its claim ends here.
        work.writer.append_table(FINDINGS, rows)
        columns["rows_added"][FINDINGS] = rows.num_rows


def _found_now(work: AuditWork, facts: LedgerFacts, result: AuditResult) -> tuple[pa.Table, Sequence[str | None]]:
    found = look(evidence_of(work, facts, result))
    return findings_table(found.findings, work.audit_id), found.notes


def _found_before_as_now(work: AuditWork, facts: LedgerFacts) -> pa.Table | None:
    """The findings of the audit before if this one can find nothing else, because neither read anything, and both have
    the same row of the ledger. None: it has to look. Looking is more than half of an audit with nothing new."""
    before, columns = work.before, facts.columns
    if before is None or columns["rows_added"] or facts.shortfall or [*(before.rows_added or ())] != [FINDINGS]:
        return None
    is_same = all(getattr(before, name) == value for name, value in columns.items() if name != "rows_added")
    if not is_same or before.software_version != __version__:
        return None
    rows = work.lake.rows(FINDINGS, conditions=[Condition("audit_id", "==", before.audit_id)])
    is_whole = len(rows) == (before.rows_added or {})[FINDINGS]
    return with_columns(rows, audit_id=constant(work.audit_id, len(rows), pa.int64())) if is_whole else None


def findings_table(found: Iterable[Finding], audit_id: int) -> pa.Table:
    rows = [(*each[:-1], None if each.since is None else to_epoch_ms(each.since), each.severity) for each in found]
    return table_of_rows(FINDINGS, (*Finding._fields, "severity"), rows, audit_id=audit_id)


def evidence_of(work: AuditWork, facts: LedgerFacts, result: AuditResult) -> Evidence:
    """The audit's knowledge once all but its own row of the ledger is written."""
    lake, partitions = work.lake, facts.columns["partitions"]
    as_of: datetime = facts.columns["as_of"]
    given = {each.offsets_partition for each in work.plan.partitions}
    not_given = [each for each in partitions if each.offsets_partition not in given and work.source is not None]
    read = [each for each in result.progress if not each.is_reread]
    return Evidence(
        LakeTables(lake),
        work.audit_id,
        as_of,
        to_datetime(result.moment.known_until_ms),
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


# Up to so many rows of a table are read once, for some 150 bytes each: findings ask for some tables a dozen times, a
# store answers late, and DuckDB opens files again for each query.
KEPT_ROWS = 100_000


class LakeTables:
    """The newest rows of a lake's tables, for as long as nothing is written to them."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._files = cache(lambda name: lake.table(name).files())
        self._whole = cache(self._read_whole)

    def rows(self, name: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        if (whole := self._whole(name)) is not None:
            return rows_that_meet(whole, conditions).select(columns)
        return self.lake.rows(name, files=self._files(name), columns=columns, conditions=conditions)

    def source(self, name: str, *conditions: Condition) -> pa.Table | pa.dataset.Dataset:
        # Nothing has replaced rows of the newest audit, the only one that is asked for.
        is_of_audit = any(each.column == "audit_id" for each in conditions)
        if self._whole(name) is not None or (self.lake.replaced.touches(name) and not is_of_audit):
            return self.rows(name, arrow_schema(name).names, *conditions)
        paths = [each.path for each in self._files(name) if all_may_hold(conditions, each.bound)]
        return self.lake.dataset(name, paths) if paths else arrow_schema(name).empty_table()

    def _read_whole(self, name: str) -> pa.Table | None:
        files, is_history = self._files(name), TABLES[name].kind == "history"
        rows = sum(file.stats.get("numRecords", KEPT_ROWS + 1) for file in files)
        return None if is_history or rows > KEPT_ROWS else self.lake.rows(name, files=files)


class CurrentTables(NamedTuple):
    """Numbers of the current tables: rows by table, offsets that expire at the next check, and names of groups; one
    group may be in two offsets partitions."""

    rows: Mapping[str, int] = {}
    expiring: int = 0
    groups: int = 0


def current_files(lake: Lake, then: LakeAsOfAudit | None = None) -> TableFiles:
    """The present files of the current tables, or those that an audit left (not a later unfinished one)."""
    names = [name for name, table in TABLES.items() if table.kind == "current"]
    return {name: lake.table(name).files(None if then is None else then.version(name)) for name in names}


def current_tables(lake: Lake, files: TableFiles) -> CurrentTables:
    def count(name: str, column: str, value: object) -> int:
        of_value = [Condition(column, "==", value)]
        return int(lake.rows(name, files=files[name], columns=[column], conditions=of_value).num_rows)

    rows, groups = {name: total_rows(its) for name, its in files.items()}, count("groups", "is_misplaced", False)
    if groups < rows["groups"]:
        ((groups,),) = answer(_NAMES, groups=lake.dataset("groups", [file.path for file in files["groups"]]))
    return CurrentTables(rows, count("offset_expiry", "decision", "expire"), groups)


_NAMES = "SELECT count(*) FROM (SELECT DISTINCT group_id FROM groups)"
# The names in `before` or `after` alone, and the states of groups in both that differ: their numbers, and the first
# names. DuckDB holds as much of two large tables as its limit allows.
CHANGES = f"""
    SELECT 'new' AS what, count(*) AS number, min(group_id, {NAMES_REPORTED}) AS names
    FROM (SELECT DISTINCT group_id FROM after ANTI JOIN before USING (group_id))
UNION ALL
    SELECT 'gone', count(*), min(group_id, {NAMES_REPORTED})
    FROM (SELECT DISTINCT group_id FROM before ANTI JOIN after USING (group_id))
UNION ALL
    (
        SELECT before.state || ' to ' || after.state AS moved, count(*) AS number, NULL
        FROM before JOIN after USING (offsets_partition, group_id)
        WHERE before.state != after.state GROUP BY ALL ORDER BY number DESC, moved
    )
"""


def changes_since(lake: Lake, audit_id: int, then: TableFiles, now: CurrentTables) -> str:
    """A line for people on what differs from the files that an audit left."""
    files = then["groups"], lake.table("groups").files()
    before, after = (lake.dataset("groups", [file.path for file in its]) for its in files)
    parts = "; ".join(changes(answer(CHANGES, before=before, after=after), current_tables(lake, then), now))
    return f"since audit {audit_id}: {parts or 'the same groups, in the same states'}"


def answer(query: str, **tables: pa.dataset.Dataset) -> list[tuple[Any, ...]]:
    """The rows of DuckDB's answer to a query of these tables."""
    with connected(**tables) as connection:
        return uninterrupted(lambda: connection.execute(query).fetchall())


def changes(groups: Iterable[tuple[Any, ...]], then: CurrentTables, now: CurrentTables) -> Iterator[str]:
    """The parts of the line. `groups`: rows of CHANGES."""
    moves = []
    for what, number, names in groups:
        if names:
            is_what = f"1 group is {what}" if number == 1 else f"{number:,} groups are {what}"
            yield f"{is_what} ({first_of(names, NAMES_REPORTED, number)})"
        elif number:
            moves.append((number, what))
    if moves:
        most = [f"{number:,} {what}" for number, what in moves[:NAMES_REPORTED]]
        others = sum(number for number, _ in moves[NAMES_REPORTED:])
        yield f"states changed: {', '.join([*most, *([counted(others, 'other')] if others else [])])}"
    for table, noun in (("group_members", "member"), ("committed_offsets", "committed offset")):
        if more := now.rows.get(table, 0) - then.rows.get(table, 0):
            yield f"{'+' if more > 0 else '-'}{counted(abs(more), noun)}"
    if expiring := now.expiring - then.expiring:
        yield f"{expiring:+,} expiring"


@dataclass(frozen=True)
class AuditSummary:
    """A finished audit: its row of the ledger, the current tables, a line on their changes since the previous audit
    (None: no earlier tables, or they were left as they are). `failures`: notes on figures that could not be
    computed."""

    audit: AuditRow
    now: CurrentTables
    changes: str | None
    failures: tuple[str, ...] = ()
    shortfall: Shortfall = field(default_factory=Shortfall)

    @property
    def lacks_records(self) -> bool:
        """Whether records were quarantined or lost, or a partition was not read to its end: `--strict` exits 3."""
        read = (*(self.audit.partitions or ()), *self.audit.state_partitions)
        is_lost = any(p.lost_from is not None for p in read)
        return bool(self.audit.quarantined or self.shortfall or is_lost)

    def lines(self) -> Iterator[str]:
        """Lines for people; names are as in the log. The audit has finished, so a bug here costs only the lines."""
        lines, failure = attempt("summing the audit up", lambda: list(self._lines()))
        yield from lines if failure is None and lines is not None else [f"audit {self.audit.audit_id}: {failure}"]

    def _lines(self) -> Iterator[str]:
        yield from self._read()
        yield from self._now()
        yield from self._other_logs()
        if self.changes is not None:
            yield f"  {self.changes}"
        yield from self._ledger_row()
        for reason, count in sorted((self.audit.quarantined or {}).items()):
            yield f"  quarantine: {count:,} {reason}"
        for note in self.audit.notes or ():
            yield f"  {note}"
        yield from (f"  {failure}" for failure in self.failures)
        if findings := (self.audit.rows_added or {}).get("findings", 0):
            yield f"  {counted(findings, 'finding')}: kgroups findings shows what is odd, why it matters and what to do"

    def _read(self) -> Iterator[str]:
        audit = self.audit
        read = [p for p in audit.partitions or () if p.records or p.bytes]
        size, again = sum(p.bytes for p in read), sum(p.records_reread for p in read)
        new = sum(p.records for p in read) - again
        if new:
            records, partitions = counted(new, "new record"), counted(len(read), "partition")
            yield f"audit {audit.audit_id}: read {records} from {partitions} ({sized(size)})"
        else:
            in_groups = " in __consumer_offsets" if any(p.records for p in audit.state_partitions) else ""
            yield f"audit {audit.audit_id}: no new records{in_groups}"
        if again:
            yield f"  {counted(again, 'record')} {'was' if again == 1 else 'were'} read again, and not added again"

    def _other_logs(self) -> Iterator[str]:
        """The new records of other logs, and their current state."""
        read: dict[str, list[PartitionProgress]] = {}
        for each in self.audit.state_partitions:
            if each.topic is not None and each.records > each.records_reread:
                read.setdefault(each.topic, []).append(each)
        for topic, partitions in sorted(read.items()):
            new = sum(p.records - p.records_reread for p in partitions)
            yield f"  {topic}: {counted(new, 'new record')} from {counted(len(partitions), 'partition')}"
        rows = self.now.rows
        if self.audit.state_partitions:
            yield (
                f"  current state: {counted(rows.get('share_partitions', 0), 'share partition')}, "
                f"{counted(rows.get('transactional_ids', 0), 'transactional id')}"
            )

    def _now(self) -> Iterator[str]:
        audit, rows = self.audit, self.now.rows
        groups, members = counted(self.now.groups, "group"), counted(rows.get("group_members", 0), "member")
        yield (
            f"  current state: {groups} ({members}), "
            f"{counted(rows.get('committed_offsets', 0), 'committed offset')}, "
            f"{counted(rows.get('pending_offsets', 0), 'offset')} pending in "
            f"{counted(rows.get('open_transactions', 0), 'open transaction')}"
        )
        if audit.as_of is not None and audit.retention_ms is not None:
            expiring = counted(self.now.expiring, "offset")
            yield (
                f"  {expiring} will expire at the brokers' next check (as of "
                f"{format_utc(audit.as_of)}, retention {format_duration(audit.retention_ms)} "
                f"({audit.retention_source}), rules of Kafka {audit.release_version})"
            )

    def _ledger_row(self) -> Iterator[str]:
        audit = self.audit
        if audit.finished_at is None:
            return
        of_history = sorted(each for each in (audit.rows_added or {}).items() if TABLES[each[0]].kind == "history")
        added = ", ".join(f"{name} {rows:,}" for name, rows in of_history if rows)
        seconds = (audit.finished_at - audit.started_at).total_seconds()
        yield (
            f"  ledger: audit {audit.audit_id} finished {format_utc(audit.finished_at)} after "
            f"{seconds:,.1f} s; rows added: {added or 'none'}"
        )
