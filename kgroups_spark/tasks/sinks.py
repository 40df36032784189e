"""The destination of the rows of tasks: they write Parquet files, and the driver commits the files that they name.

A task that fails or runs twice leaves files that no commit names.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from kgroups_spark.counts import counted
from kgroups_spark.lake.failures import reported_in_one_line
from kgroups_spark.lake.parts_writer import Part, PartWriter
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.history_parts import part_schema
from kgroups_spark.replay.stored_tables import StoredFile, StoredTable, shards_in_file
from kgroups_spark.runner import Files, Line, Runner, line_batch
from kgroups_spark.storage.files import file_system
from kgroups_spark.tables.layout import WORK_FOLDER
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.tasks.outputs import (
    AGAIN,
    FACT,
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

# The input rows of a task -> its outputs.
Work = Callable[[Iterator[pa.RecordBatch]], Iterable[TaskOutput]]
# Tables of the rows that only the replay gets.
FOR_REPLAY = (*LOG_TABLES, "group_traffic")
# Lines that a task collects before it passes them to Spark; it keeps all lines of a shard that may still be lost.
LINES_AT_ONCE = 8192


class Given(NamedTuple):
    """The input of an action: a table for each task, and the URIs of the stored files that it may read."""

    tables: Sequence[pa.Table]
    files: Files = ()


class Made(NamedTuple):
    """The facts that the tasks of an action reported, and their number of rows of each table."""

    facts: list[Any]
    rows: Counter[str]


@contextmanager
def sink_of(writer: LakeWriter, *, for_replay: bool = False) -> Iterator[Sink]:
    """The sink of an audit; `for_replay`: some of its rows go only to the replay."""
    with ExitStack() as stack:
        folders = {ROWS: writer.lake.uri}
        if for_replay:
            folders[PASSED_ON] = folders[AGAIN] = stack.enter_context(_work_folder(writer))
        yield Sink(writer.lake.runner, folders, writer.audit_id)


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
        if writer.lake.stand_in is not None:
            writer.lake.store.delete(work_uri)


@dataclass
class Sink:
    """Tasks write parts, each kind of rows under its own URI. `rows`: their number so far, by table."""

    runner: Runner
    folders: Mapping[str, str]
    audit_id: int
    order_of: Order = order_of_night
    rows: Counter[str] = field(default_factory=Counter)
    parts: list[tuple[str, Part]] = field(default_factory=list)

    @property
    def size(self) -> str:
        """The amount so far, as text for people."""
        return counted(sum(kind == ROWS for kind, _ in self.parts), "part")

    def run(self, given: Given, work: Work) -> Made:
        """Runs one action: the work of each task on its input."""
        collect = partial(PartCollector, audit_id=self.audit_id, order_of=self.order_of)
        collectors = {kind: collect(uri) for kind, uri in self.folders.items()}

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from map(line_batch, written(work(batches), collectors))

        made = Made([], Counter())
        for kind, reported in self.runner.map(task, *given):
            if kind == FACT:
                made.facts.append(reported)
                continue
            part = Part(**reported)
            self.parts.append((kind, part))
            if kind == ROWS:
                made.rows[part.table] += part.records
        self.rows.update(made.rows)
        return made

    def tables(self, kinds: Collection[str], names: Iterable[str] = FOR_REPLAY) -> dict[str, StoredTable]:
        """All rows of these kinds so far as input of the replay, by table."""
        return {name: self._table(name, kinds) for name in names}

    def _table(self, name: str, kinds: Collection[str]) -> StoredTable:
        found = [(kind, part) for kind, part in self.parts if kind in kinds and part.table == name]
        folder = self.folders[found[0][0]] if found else ""
        files = (StoredFile(part.path, shards_in_file(name, json.loads(part.stats_json))) for _, part in found)
        label = f"{name} {'again' if AGAIN in kinds else 'new'}"
        return StoredTable(label, name, f"{folder}/{name}", tuple(part_schema(name).names), tuple(files))

    def append(self, writer: LakeWriter, name: str) -> None:
        """Adds the rows to the table; no rows, no commit."""
        writer.append_parts(name, self._of(name))

    def replace(self, writer: LakeWriter, name: str, keep_audit: int | None = None) -> None:
        """Replaces the table's rows, except those of `keep_audit`, by these. An empty table and no rows: no commit."""
        writer.replace_parts(name, self._of(name), keep_audit)

    def table(self, writer: LakeWriter, name: str) -> pa.Table:
        """The rows of a table, in the driver's memory."""
        return writer.lake.dataset(name, [part.path for part in self._of(name)]).to_table()

    def _of(self, name: str) -> list[Part]:
        return [part for kind, part in self.parts if kind == ROWS and part.table == name]


def parts_of(runner: Runner, rows: DataFrame, writer: PartWriter) -> list[Part]:
    """The rows of a frame as parts: each task writes one, batch by batch, and none if it has no rows."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = writer.write_batches(batches)
        yield line_batch([] if part is None else [(ROWS, asdict(part))])

    with reported_in_one_line(f"table {writer.table_name}: a task could not write its part"):
        return [Part(**reported) for _, reported in runner.lines(rows, task)]


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
