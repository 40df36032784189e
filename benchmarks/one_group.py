"""How much of a large table one group's rows cost, before and after its files are brought together.

    python -m benchmarks.one_group [--nights 100] [--records 1000000] [--json FILE]

Makes an `offset_commits` of so many nights, each as an audit leaves it, and asks it for one group of one offsets
partition, its last week and all of it: with Spark (files and bytes that it opens and reads) and with DuckDB over
deltalake. Asks again after Delta's OPTIMIZE, after its ZORDER BY (group_id), and after `kgroups maintain`'s rewriting,
each from a copy of the same table. 100 nights of 1 M records need 6 GB of disk and some 40 minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.process_tree import cpu_seconds
from kgroups_spark.audit.keep import optimize
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.sinks import PartCollector
from kgroups_spark.spark.session import spark_session
from kgroups_spark.tables.rows import constant, timestamps
from kgroups_spark.tables.schemas import arrow_schema

NAME = "offset_commits"
PARTITIONS, GROUPS_PER_PARTITION, TOPICS, TASKS = 50, 100, 40, 4
FIRST_NIGHT = datetime(2026, 8, 1, tzinfo=UTC)
ROUNDS = 3
WAYS = ("as audits leave it", "OPTIMIZE", "OPTIMIZE ZORDER BY", "kgroups maintain")


@dataclass(frozen=True)
class Question:
    """The rows to read, as SQL and for pyarrow."""

    condition: str
    expression: pc.Expression


@dataclass(frozen=True)
class Cost:
    """The cost of an answer: seconds (the least of some rounds), files opened, and bytes read from them."""

    engine: str
    seconds: float
    rows: int
    files: int
    megabytes: float


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_group", description=__doc__.splitlines()[0])
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--records", type=int, default=1_000_000, help="a night (default: 1,000,000)")
    parser.add_argument(
        "--work", type=Path, help="where the table goes and stays, for another run (default: a temporary folder)"
    )
    parser.add_argument("--only", action="append", choices=WAYS, help="this way of arranging files (may be repeated)")
    parser.add_argument("--json", type=Path, help="a file for the figures in JSON")
    options = parser.parse_args(arguments)
    work = options.work or Path(tempfile.mkdtemp(prefix="kgroups-one-group-"))
    spark = spark_session("one group", {"spark.driver.memory": "4g"})
    try:
        costs = list(_measured(spark, work, options.nights, options.records, options.only or WAYS))
    finally:
        spark.stop()
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(costs, indent=2) + "\n")
    return 0


def _measured(
    spark: SparkSession, work: Path, nights: int, records: int, only: Sequence[str]
) -> Iterator[dict[str, object]]:
    shutil.rmtree(work / "copy", ignore_errors=True)
    lake = Lake.create(spark, str(work / "nights"))
    started = cpu_seconds()
    for night in range(lake.table(NAME).snapshot().version, nights):
        _write_night(lake, night, records)
    _say(f"{nights} nights of {records:,} records written", started, lake)
    for table in only:
        # Files of a table are never rewritten in place, so a link is as good as a copy.
        shutil.copytree(work / "nights", work / "copy", copy_function=os.link)
        copy = Lake(spark, str(work / "copy"))
        started = cpu_seconds()
        _arrange(copy, table)
        _say(table, started, copy)
        for name, question in _questions(nights).items():
            for ask in (_by_spark, _by_duckdb):
                reported = {"table": table, "question": name, **asdict(ask(copy, question))}
                sys.stdout.write(json.dumps(reported) + "\n")
                yield reported
        shutil.rmtree(work / "copy")


def _arrange(lake: Lake, way: str) -> None:
    if way == "kgroups maintain":
        optimize(LakeWriter(lake, lake.table(NAME).snapshot().version + 1, lambda: None), NAME)
    elif way != "as audits leave it":
        zorder = " ZORDER BY (group_id)" if way.endswith("ZORDER BY") else ""
        lake.spark.sql(f"OPTIMIZE delta.`{lake.table(NAME).path}`{zorder}").collect()


def _questions(nights: int) -> dict[str, Question]:
    group_id, since = _group(17, 3), FIRST_NIGHT + timedelta(days=nights - 7)
    one = f"group_id = '{group_id}'"
    is_it, is_new = pc.field("group_id") == group_id, pc.field("log_timestamp") >= pa.scalar(since)
    return {
        "one group, last week": Question(
            f"offsets_partition = 17 AND {one} AND log_timestamp >= TIMESTAMP '{since:%Y-%m-%d} 00:00:00+00:00'",
            (pc.field("offsets_partition") == 17) & is_it & is_new,
        ),
        "one group, all of it": Question(one, is_it),
    }


def _group(offsets_partition: int, number: int) -> str:
    # Names do not show the partition, which is a hash of them.
    return f"group-{(offsets_partition * 7919 + number * 104_729) % 1_000_003:06d}-{offsets_partition}-{number}"


def _write_night(lake: Lake, night: int, records: int) -> None:
    """Writes one audit's parts: as many collectors as it has tasks, the partitions of each next to each other."""
    audit_id, rng = night + 1, np.random.default_rng(night)
    parts: list[Part] = []
    for partitions in np.array_split(np.arange(PARTITIONS), TASKS):
        collector = PartCollector(lake.uri, audit_id)
        for partition in partitions.tolist():
            parts += collector.add(NAME, _rows(night, partition, records // PARTITIONS, audit_id, rng))
        parts += collector.rest()
    LakeWriter(lake, audit_id, lambda: None).append_parts(NAME, parts)


def _rows(night: int, partition: int, records: int, audit_id: int, rng: np.random.Generator) -> pa.Table:
    """Commits of one partition and night, sorted as stage 1 returns them; a few groups make most of them."""
    group = np.minimum(rng.zipf(1.3, records) - 1, GROUPS_PER_PARTITION - 1)
    topic, topic_partition = (group * 7 + rng.integers(0, 3, records)) % TOPICS, rng.integers(0, 12, records)
    at = np.arange(records)
    order = np.lexsort((at, topic_partition, topic, group))
    group, topic, topic_partition, at = group[order], topic[order], topic_partition[order], at[order]
    day_ms = 86_400_000
    ms = int((FIRST_NIGHT + timedelta(days=night)).timestamp() * 1000) + np.sort(rng.integers(0, day_ms, records))[at]
    columns = {
        "audit_id": constant(audit_id, records, pa.int64()),
        "offsets_partition": constant(partition, records, pa.int32()),
        "log_offset": pa.array(partition * 10**8 + night * records + at),
        "log_timestamp": timestamps(ms),
        "group_id": pa.DictionaryArray.from_arrays(
            pa.array(group.astype(np.int32)), pa.array([_group(partition, n) for n in range(GROUPS_PER_PARTITION)])
        ),
        "topic": pa.DictionaryArray.from_arrays(
            pa.array(topic.astype(np.int32)), pa.array([f"topic-{n}" for n in range(TOPICS)])
        ),
        "partition": pa.array(topic_partition.astype(np.int32)),
        "committed_offset": pa.array(group * 10**6 + night * 10**5 + at * 17 + rng.integers(0, 17, records)),
        "leader_epoch": constant(5, records, pa.int32()),
        "metadata": constant("", records, pa.string()),
        "commit_timestamp": timestamps(ms),
        "record_type": constant(1, records, pa.int16()),
        "value_version": constant(3, records, pa.int16()),
        "is_transactional": constant(False, records, pa.bool_()),
    }
    schema = arrow_schema(NAME)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(records, f.type) for f in schema]
    return pa.table(arrays, names=schema.names)


def _by_spark(lake: Lake, question: Question) -> Cost:
    """Reads all columns of the rows in question with Spark."""
    frame = lake.read(NAME).where(question.condition)
    rows, seconds = _least(lambda: len(frame.toArrow()))
    machine = lake.spark._jvm
    assert machine is not None
    jvm = int(machine.java.lang.ProcessHandle.current().pid())
    before = _read_bytes(jvm)
    frame.toArrow()
    return Cost("Spark", seconds, rows, len(frame.inputFiles()), (_read_bytes(jvm) - before) / 1e6)


def _by_duckdb(lake: Lake, question: Question) -> Cost:
    """The same with DuckDB, over the files that deltalake chooses by their statistics."""
    folder = lake.table(NAME).path.removeprefix("file:")

    def ask() -> int:
        connection = duckdb.connect()
        connection.register("offset_commits", DeltaTable(folder).to_pyarrow_dataset())
        found = connection.sql(f"SELECT * FROM offset_commits WHERE {question.condition}")
        return len(found.to_arrow_table())

    rows, seconds = _least(ask)
    before = _read_bytes(os.getpid())
    ask()
    megabytes = (_read_bytes(os.getpid()) - before) / 1e6
    files = len(list(DeltaTable(folder).to_pyarrow_dataset().get_fragments(filter=question.expression)))
    return Cost("DuckDB", seconds, rows, files, megabytes)


def _read_bytes(pid: int) -> int:
    """Bytes that the process has read, from the page cache or not. Spark's own count misses reads in other threads."""
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])


def _least(ask: Callable[[], int]) -> tuple[int, float]:
    found = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        rows = ask()
        found.append(time.perf_counter() - started)
    return rows, min(found)


def _say(what: str, since: float, lake: Lake) -> None:
    files = lake.table(NAME).files()
    size = sum(file.size for file in files) / 1e6
    sys.stderr.write(f"{what}: {len(files)} files, {size:,.0f} MB, {cpu_seconds() - since:,.0f} CPU s\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
