"""The destination of the rows of tasks: they write Parquet files, and the driver commits the files that they name.

A task that fails or runs twice leaves files that no commit names.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from kgroups_spark.lake.parts import OpenPart, Part, PartWriter
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.stored_history import StoredFile, StoredTable, part_schema, shards_in_file
from kgroups_spark.sources.files import Task, file_system
from kgroups_spark.spark.tasks import Files, Line, Runner, line_batch
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, WORK_FOLDER
from kgroups_spark.words import counted

TaskOutput: TypeAlias = "tuple[str, pa.Table] | ForReplay | Fact | ShardBegins | ShardLost"
# The rough limits for rows and bytes of a part.
ROWS_PER_PART = 1 << 20
BYTES_PER_PART = 32 << 20
# The rough limit for bytes of rows that wait to be worth a row group. A third is enough of offset commits, some 12,000
# rows, because row groups of one lot must not become one (CommitBatches).
BYTES_AT_ONCE, ENOUGH_OF = 4 << 20, {"offset_commits": 3}
# Kinds of outputs of a task: rows for a table, rows only for the replay, such rows that were read before, and facts.
ROWS, PASSED_ON, AGAIN, FACT = "rows", "passed_on", "again", "fact"


class Growing(NamedTuple):
    """Rows of a kind: those that wait, and the part that has the rows before them.

    size_bytes   of the buffers of those that wait: asking Arrow again with each new table would take quadratic time
    written      rows of the part: it may have got others since then
    """

    waiting: tuple[pa.Table, ...] = ()
    size_bytes: int = 0
    part: OpenPart | None = None
    written: int = 0


# A table, and for checkpoints also the reason, so that a night finds the files of a state without reading rows.
Parts: TypeAlias = "dict[tuple[str, str | None], Growing]"


class ForReplay(NamedTuple):
    """Rows that do not go to a table: the replay completes them first, or an earlier audit read them (`is_again`)."""

    table: str
    rows: pa.Table
    is_again: bool = False


class Fact(NamedTuple):
    """A fact for the driver; it must be a JSON value."""

    reported: Any


class ShardBegins(NamedTuple):
    """The following outputs are of this shard, up to the next ShardBegins."""

    shard: str


class ShardLost(NamedTuple):
    """No output of the shard that has begun counts. The following outputs are not of a shard."""


class PartCollector:
    """Packs the rows of a task into few parts per table, row group by row group.

    Rows wait until they are worth a row group: a small offsets partition is not.
    """

    def __init__(self, lake_uri: str, audit_id: int) -> None:
        self._lake_uri, self._audit_id = lake_uri, audit_id
        self._parts: Parts = {}

    def add(self, name: str, rows: pa.Table) -> Iterator[Part]:
        """Adds rows; yields a part once it is full."""
        if not len(rows):
            return
        kind = name, rows["reason"][0].as_py() if name == CHECKPOINTS else None
        was = self._parts.get(kind, Growing())
        size_bytes = was.size_bytes + rows.get_total_buffer_size()  # `nbytes` takes 20 times as long
        growing = was._replace(waiting=(*was.waiting, rows), size_bytes=size_bytes)
        self._parts[kind] = growing
        if growing.size_bytes >= BYTES_AT_ONCE // ENOUGH_OF.get(name, 1):
            part = self._written(name, growing)
            self._parts[kind] = Growing(part=part, written=part.records)
            if part.records >= ROWS_PER_PART or part.size >= BYTES_PER_PART:
                del self._parts[kind]
                yield part.close()

    def mark(self) -> Parts:
        """The rows up to now, for `back_to`."""
        return dict(self._parts)

    def back_to(self, mark: Parts) -> None:
        """Drops the rows added since the mark. Parts that were yielded since then must not be used."""
        for kind, growing in self._parts.items():
            if growing.part is not None and (kind not in mark or mark[kind].part is not growing.part):
                growing.part.close()
        self._parts = {
            kind: was if was.part is None else was._replace(part=was.part.first(was.written))
            for kind, was in mark.items()
        }

    def rest(self) -> Iterator[Part]:
        """The parts of the remaining rows."""
        for kind in list(self._parts):
            yield self._written(kind[0], self._parts.pop(kind)).close()

    def _written(self, name: str, growing: Growing) -> OpenPart:
        """The part with the rows that waited, too."""
        part = growing.part
        if growing.waiting:
            rows = pa.concat_tables(growing.waiting).unify_dictionaries()
            part = part or PartWriter(name, self._lake_uri, self._audit_id).open(rows.schema)
            part.write(rows)
        assert part is not None
        return part


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
    folders = {ROWS: writer.lake.uri}
    if not for_replay:
        yield Sink(writer.lake.runner, folders, writer.audit_id)
        return
    # A folder for parts that are never committed.
    work_uri = f"{writer.lake.uri}/{WORK_FOLDER}/audit-{writer.audit_id}-{uuid.uuid4()}"
    storage, folder = file_system(work_uri)
    for name in FOR_REPLAY:
        storage.create_dir(f"{folder}/{name}")
    try:
        yield Sink(writer.lake.runner, folders | {PASSED_ON: work_uri, AGAIN: work_uri}, writer.audit_id)
    finally:
        with suppress(FileNotFoundError):  # an audit that took over has removed it
            storage.delete_dir(folder)
        if writer.lake.stand_in is not None:
            writer.lake.store.delete(work_uri)


@dataclass
class Sink:
    """Tasks write parts, each kind under its own URI. `rows`: their number by table; `parts`: by kind and table."""

    runner: Runner
    folders: Mapping[str, str]
    audit_id: int
    rows: Counter[str] = field(default_factory=Counter)
    parts: defaultdict[tuple[str, str], list[Part]] = field(default_factory=lambda: defaultdict(list))

    @property
    def size(self) -> str:
        """The amount so far, as text for people."""
        return counted(sum(len(parts) for (kind, _), parts in self.parts.items() if kind == ROWS), "part")

    def run(self, given: Given, work: Work) -> Made:
        """Runs one action: the work of each task on its input."""
        return self.took(self.runner.map(self.task(work), *given))

    def task(self, work: Work) -> Task:
        """The work of a task, whose rows it writes, and reports."""
        return partial(written, work, {kind: PartCollector(uri, self.audit_id) for kind, uri in self.folders.items()})

    def took(self, lines: Iterable[Line]) -> Made:
        """The parts and facts that the tasks of an action reported."""
        made = Made([], Counter())
        for kind, reported in lines:
            if kind == FACT:
                made.facts.append(reported)
                continue
            part = Part(**reported)
            self.parts[kind, part.table].append(part)
            if kind == ROWS:
                made.rows[part.table] += part.records
        self.rows.update(made.rows)
        return made

    def tables(self, kinds: Collection[str], names: Iterable[str] = FOR_REPLAY) -> dict[str, StoredTable]:
        """All rows of these kinds so far as input of the replay, by table."""
        tables = {}
        for name in names:
            found = [(kind, part) for kind in kinds for part in self.parts[kind, name]]
            folder = self.folders[found[0][0]] if found else ""
            files = (StoredFile(part.path, shards_in_file(name, json.loads(part.stats_json))) for _, part in found)
            label = f"{name} {'again' if AGAIN in kinds else 'new'}"
            columns = tuple(part_schema(name).names)
            tables[name] = StoredTable(label, name, f"{folder}/{name}", columns, tuple(files))
        return tables

    def append(self, writer: LakeWriter, name: str) -> None:
        """Adds the rows to the table; no rows, no commit."""
        writer.append_parts(name, self.parts[ROWS, name])

    def replace(self, writer: LakeWriter, name: str, keep_audit: int | None = None) -> None:
        """Replaces the table's rows, except those of `keep_audit`, by these. An empty table and no rows: no commit."""
        writer.replace_parts(name, self.parts[ROWS, name], keep_audit)

    def table(self, writer: LakeWriter, name: str) -> pa.Table:
        """The rows of a table, in the driver's memory."""
        return writer.lake.dataset(name, [part.path for part in self.parts[ROWS, name]]).to_table()


def written(
    work: Work, collectors: Mapping[str, PartCollector], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Writes a task's rows, each kind by its collector; yields lots of lines: parts with their kind, and facts."""
    lines, marks = list[Line](), dict[str, Parts]()
    of_shard: list[Line] | None = None  # those of the shard that has begun, which may be lost
    for output in work(batches):
        if isinstance(output, ShardBegins):
            lines += of_shard or ()
            of_shard, marks = [], {kind: collector.mark() for kind, collector in collectors.items()}
        elif isinstance(output, ShardLost):
            # Parts that were yielded with rows of this shard also have the rows in the mark: no commit will name them.
            of_shard = None
            for kind, mark in marks.items():
                collectors[kind].back_to(mark)
        elif isinstance(output, Fact):
            (lines if of_shard is None else of_shard).append((FACT, output.reported))
        else:
            kind, (name, rows) = ROWS, output[:2]
            if isinstance(output, ForReplay):
                kind = AGAIN if output.is_again else PASSED_ON
            parts = [(kind, asdict(part)) for part in collectors[kind].add(name, rows)]
            (lines if of_shard is None else of_shard).extend(parts)
        if len(lines) >= LINES_AT_ONCE:
            yield line_batch(lines)
            lines = []
    rest = [(kind, asdict(part)) for kind, collector in collectors.items() for part in collector.rest()]
    yield line_batch([*lines, *(of_shard or ()), *rest])
