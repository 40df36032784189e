"""One night: reads new records of the log into history, and replays the shards. Each step of it is an action of Spark.

    read     ranges of the log -> rows of history                                  tasks
    read on  records that the log received meanwhile                               tasks
    settle   without partitions that were given up; the moment of the decisions
    replay   saved state, rows of history -> rows of all other tables, new state   tasks; a shard an offsets partition

The sink decides where rows go and how they become rows of tables (replay/sinks.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from kgroups_spark.audit.plan import read_on
from kgroups_spark.audit.result import AuditResult
from kgroups_spark.audit.work import AuditWork, Moment, read_again
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.replay.history_rows import COLUMNS
from kgroups_spark.replay.ranges import RangeProgress, newly_quarantined
from kgroups_spark.replay.shard_states import Stored
from kgroups_spark.replay.sinks import AGAIN, PASSED_ON, ROWS, Given, Made, Sink, Work
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
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.sources.files import Task
from kgroups_spark.tables.schemas import CHECKPOINTS, STATE_LOG_TABLES, TABLES
from kgroups_spark.words import counted, named_partitions

if TYPE_CHECKING:
    from kgroups_spark.spark.runner import SparkRunner

# The columns of quarantine that identify the records that an audit has decoded again.
DECODED_AGAIN = ["offsets_partition", "resolved_by", *COLUMNS]
HISTORY = [name for name, table in TABLES.items() if table.kind == "history" and name not in STATE_LOG_TABLES]


@dataclass
class Step:
    """One action of an audit. Its tasks get the rows of a DataFrame, write rows of tables as Parquet files, and report
    them. By Spark these two are the same:

        step.end(step.rows.mapInArrow(step.function, step.reports))
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
        """A DataFrame with a row for each range of the log, or for each shard; a Spark partition has those of one task,
        in their order. Files that are carried to tasks come first."""
        return self._spark.frame(*self.given)

    @property
    def function(self) -> Task:
        return self._spark.function(self.sink.task(self.of_task))

    @property
    def reports(self) -> Any:
        return self._spark.reports

    def end(self, reports: Any) -> None:
        """Runs the action, whose DataFrame of reports it gets."""
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


def read_steps(work: AuditWork, sink: Sink) -> Generator[Step, None, list[RangeProgress]]:
    """Reads what is new, then what the log received meanwhile, if that is needed. Each record is read only once,
    because the cleaner may run between two reads of a log, on a broker and in its folder.

    Returns the progress of each range, and of the partitions that were given up.
    """
    progress = yield from _read(work, sink, work.ranges_by_task)
    if more := read_on(work.plan, progress):
        progress += yield from _read(work, sink, work.by_task(more))
    return progress


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
    function = partial(replay_shards, task, tasks)
    return Step(
        work, sink, stored.given_to(tasks), function, f"replaying {counted(len(work.shards), 'coordinator shard')}"
    )


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
