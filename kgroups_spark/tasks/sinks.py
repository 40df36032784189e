"""The destination of the rows of tasks, and how they become rows of tables: the only difference between the two
writers.

    parts  tasks write Parquet files to the store; the driver commits the files that they name
    rows   tasks cannot reach the store: the rows return in a frame, and Spark's writer writes it table by table

A task that fails or runs twice leaves files that no commit names, or rows that its next attempt computes again.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kgroups_spark.counts import counted
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.failures import reported_in_one_line
from kgroups_spark.lake.parts_reader import dataset_of
from kgroups_spark.lake.parts_writer import Part, PartWriter
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.history_parts import HistoryPart
from kgroups_spark.replay.stored_tables import shards_in_file
from kgroups_spark.runner import Line, Runner, SparkRunner, line_batch, lines_of
from kgroups_spark.storage.files import file_system
from kgroups_spark.storage.s3 import with_storage
from kgroups_spark.tables.internal import NIGHT
from kgroups_spark.tables.layout import WORK_FOLDER
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, TABLES
from kgroups_spark.tasks.outputs import (
    AGAIN,
    FACT,
    LOST,
    PASSED_ON,
    ROWS,
    Fact,
    ForReplay,
    Order,
    PartCollector,
    Parts,
    Rows,
    ShardBegins,
    ShardLost,
    TaskOutput,
    kind_of,
    order_of_night,
)
from kgroups_spark.tasks.packed_rows import PACKED, packed_outputs, unpacked

# The input of an action: a table for each task, or a frame if tasks do not reach the store.
Given: TypeAlias = "Sequence[pa.Table] | DataFrame"
# The input rows of a task -> its outputs.
Work = Callable[[Iterator[pa.RecordBatch]], Iterable[TaskOutput]]
# Tables of the rows that only the replay gets.
FOR_REPLAY = (*LOG_TABLES, "group_traffic")
# Lines that a task collects before it passes them to Spark; it keeps all lines of a shard that may still be lost.
LINES_AT_ONCE = 8192


class Made(NamedTuple):
    """The facts that the tasks of an action reported, and their number of rows of each table."""

    facts: list[Any]
    rows: Counter[str]


class Sink(Protocol):
    """Rows of the tables of an audit, action by action. `rows`: the number so far, by table."""

    @property
    def rows(self) -> Counter[str]: ...

    @property
    def size(self) -> str:
        """The amount so far, as text for people."""

    def run(self, given: Given, work: Work) -> Made:
        """Runs one action: the work of each task on its input."""

    def history(self) -> tuple[list[HistoryPart], list[DataFrame]]:
        """All rows so far as input of the replay: parts, or frames of PACKED."""

    def append(self, writer: LakeWriter, name: str) -> None:
        """Adds the rows to the table; no rows, no commit."""

    def replace(self, writer: LakeWriter, name: str, keep_audit: int | None = None) -> None:
        """Replaces the table's rows, except those of `keep_audit`, by these. An empty table and no rows: no commit."""

    def table(self, writer: LakeWriter, name: str) -> pa.Table:
        """The rows of a table, in the driver's memory."""

    def require_read_once(self) -> None:
        """Raises KgroupsError if tasks ran again after a lost executor and reported other facts: the log has grown or
        was compacted in between, so that not all tables were written from the same records."""


@contextmanager
def sink_of(writer: LakeWriter, *, for_replay: bool = False) -> Iterator[Sink]:
    """The sink of an audit; `for_replay`: some of its rows go only to the replay."""
    with ExitStack() as stack:
        if writer.name == "parts":
            folders = {ROWS: writer.lake.uri}
            if for_replay:
                folders[PASSED_ON] = folders[AGAIN] = stack.enter_context(_work_folder(writer))
            yield PartsSink(writer.lake.runner, folders, writer.audit_id)
        else:
            yield RowsSink(stack, writer.lake.spark)


@contextmanager
def _work_folder(writer: LakeWriter) -> Iterator[str]:
    """A folder for parts that are never committed, deleted at the end of the block."""
    work_uri = f"{writer.lake.uri}/{WORK_FOLDER}/audit-{writer.audit_id}-{uuid.uuid4()}"
    storage, folder = file_system(work_uri)
    for name in FOR_REPLAY:
        storage.create_dir(f"{folder}/{name}")
    try:
        yield work_uri
    finally:
        with suppress(FileNotFoundError):  # an audit that took over has removed it
            storage.delete_dir(folder)


@dataclass
class PartsSink:
    """Tasks write parts, each kind of rows under its own URI."""

    runner: Runner
    folders: Mapping[str, str]
    audit_id: int
    order_of: Order = order_of_night
    rows: Counter[str] = field(default_factory=Counter)
    parts: list[tuple[str, Part]] = field(default_factory=list)

    @property
    def size(self) -> str:
        return counted(sum(kind == ROWS for kind, _ in self.parts), "part")

    def run(self, given: Given, work: Work) -> Made:
        collect = partial(PartCollector, audit_id=self.audit_id, order_of=self.order_of)
        collectors = {kind: collect(uri) for kind, uri in self.folders.items()}

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from map(line_batch, written(work(batches), collectors))

        made = Made([], Counter())
        lines = lines_of(given, task) if isinstance(given, DataFrame) else self.runner.map(task, given)
        for kind, reported in lines:
            if kind == FACT:
                made.facts.append(reported)
                continue
            part = Part(**reported)
            self.parts.append((kind, part))
            if kind == ROWS:
                made.rows[part.table] += part.records
        self.rows.update(made.rows)
        return made

    def history(self) -> tuple[list[HistoryPart], list[DataFrame]]:
        return [self._history_part(kind, part) for kind, part in self.parts], []

    def _history_part(self, kind: str, part: Part) -> HistoryPart:
        uri = f"{self.folders[kind]}/{part.table}/{part.path}"
        return HistoryPart(part.table, uri, kind == AGAIN, shards_in_file(part.table, json.loads(part.stats_json)))

    def append(self, writer: LakeWriter, name: str) -> None:
        writer.append_parts(name, self._of(name))

    def replace(self, writer: LakeWriter, name: str, keep_audit: int | None = None) -> None:
        writer.replace_parts(name, self._of(name), keep_audit)

    def table(self, writer: LakeWriter, name: str) -> pa.Table:
        return dataset_of(name, writer.lake.table(name).path, [part.path for part in self._of(name)]).to_table()

    def require_read_once(self) -> None:
        """Never raises here: the named files have the rows of one attempt."""

    def _of(self, name: str) -> list[Part]:
        return [part for kind, part in self.parts if kind == ROWS and part.table == name]


def parts_of(rows: DataFrame, writer: PartWriter) -> list[Part]:
    """The rows of a frame as parts: each task writes one, batch by batch, and none if it has no rows."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = writer.write_batches(batches)
        yield line_batch([] if part is None else [(ROWS, asdict(part))])

    with reported_in_one_line(f"table {writer.table_name}: a task could not write its part"):
        return [Part(**reported) for _, reported in lines_of(rows, task)]


def written(outputs: Iterable[TaskOutput], collectors: Mapping[str, PartCollector]) -> Iterator[list[Line]]:
    """Writes the rows of a task, each kind by its collector; yields the parts with their kind, and the facts, in
    lots."""
    lines, marks = list[Line](), dict[str, Parts]()
    of_shard: list[Line] | None = None  # those of the shard that has begun, which may be lost
    for output in outputs:
        if isinstance(output, ShardBegins):
            lines += of_shard or ()
            of_shard, marks = [], {kind: collector.mark() for kind, collector in collectors.items()}
        elif isinstance(output, ShardLost):
            # Parts that were yielded with rows of this shard also have the rows in the mark: no commit will name them.
            of_shard = None
            for kind, mark in marks.items():
                collectors[kind].back_to(mark)
        else:
            (lines if of_shard is None else of_shard).extend(_lines(output, collectors))
        if len(lines) >= LINES_AT_ONCE:
            yield lines
            lines = []
    rest = [(kind, asdict(part)) for kind, collector in collectors.items() for part in collector.rest()]
    yield [*lines, *(of_shard or ()), *rest]


def _lines(output: tuple[str, Rows] | ForReplay | Fact, collectors: Mapping[str, PartCollector]) -> list[Line]:
    if isinstance(output, Fact):
        return [(FACT, output.reported)]
    kind, name, rows = kind_of(output)
    return [(kind, asdict(part)) for part in collectors[kind].add(name, rows)]


class _Action(NamedTuple):
    """A frame of PACKED with only rows that count, and the reports of its tasks."""

    frame: DataFrame
    made: Made


@dataclass
class RowsSink:
    """The rows stay in frames, as PACKED, which are persisted until the stack is closed."""

    stack: ExitStack
    spark: SparkSession
    rows: Counter[str] = field(default_factory=Counter)
    actions: list[_Action] = field(default_factory=list)

    @property
    def size(self) -> str:
        return counted(self.rows.total(), "row")

    @staticmethod
    def frame(given: DataFrame, work: Work) -> DataFrame:
        """The outputs of the tasks, as PACKED."""

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from packed_outputs(work(batches))

        return given.mapInArrow(with_storage(task), PACKED)

    def run(self, given: Given, work: Work) -> Made:
        rows = given if isinstance(given, DataFrame) else SparkRunner(self.spark).frame(given)
        frame = self.frame(rows, work).persist()
        self.stack.callback(frame.unpersist)
        reported = frame.drop("packed_rows").collect()
        lost = {row.shard for row in reported if row.kind == LOST}
        if lost:
            frame = frame.where(F.col("shard").isNull() | ~F.col("shard").isin(*lost))
        made = _made([row for row in reported if row.shard not in lost])
        self.actions.append(_Action(frame, made))
        self.rows.update(made.rows)
        return made

    def history(self) -> tuple[list[HistoryPart], list[DataFrame]]:
        return [], [action.frame for action in self.actions]

    def append(self, writer: LakeWriter, name: str) -> None:
        if self.rows[name]:
            writer.append(name, self.of(name))

    def replace(self, writer: LakeWriter, name: str, keep_audit: int | None = None) -> None:
        if self.rows[name] or writer.lake.table(name).files():
            writer.replace(name, self.of(name), keep_audit)

    def table(self, writer: LakeWriter, name: str) -> pa.Table:
        return self.of(name).toArrow().select(TABLES[name].columns.names)

    def require_read_once(self) -> None:
        for frame, made in self.actions:
            reported = _made(frame.where(F.col("kind") == FACT).drop("packed_rows").collect()).facts
            if sorted(map(_as_text, reported)) != sorted(map(_as_text, made.facts)):
                raise KgroupsError(
                    "a task had to run twice, and the log had changed in between. Nothing of this audit counts; "
                    "run it again"
                )

    def of(self, name: str) -> DataFrame:
        """The rows of a table."""
        frames = [frame for frame, made in self.actions if made.rows[name]] or [self.actions[-1].frame]
        rows = reduce(DataFrame.unionByName, [unpacked(frame, name) for frame in frames])
        if name != CHECKPOINTS:
            return rows
        # Separate files for a night's state, so that their statistics identify them (PER_SESSION keeps the union's
        # partitions apart).
        return rows.where(F.col("reason") == NIGHT).unionByName(rows.where(F.col("reason") != NIGHT))


def _made(reported: Iterable[Row]) -> Made:
    facts, rows = list[Any](), Counter[str]()
    for row in reported:
        if row.kind == FACT:
            facts.append(json.loads(row.fact))
        elif row.kind == ROWS:
            rows[row.packed_table] += row.row_count
    return Made(facts, rows)


def _as_text(fact: Any) -> str:
    return json.dumps(fact, sort_keys=True)
