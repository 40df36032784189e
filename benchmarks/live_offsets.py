"""A night with few records in a lake with many live offsets, against pyarrow reading and writing the same tables.

    python -m benchmarks.live_offsets SEGMENTS WORK ROUNDS [--full-jit]

SEGMENTS has two nights of a log (generate_log.generate_live): a commit of each offset, then a hundredth of them again.
Prints one line of JSON. `rounds`: CPU seconds of the process tree: `night` for the second audit, into a copy of the
lake that the first one left; `tables` for pyarrow, which reads each table that an audit replaces and writes it as
Parquet. A round before them warms up and is not counted.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import FULL_JIT
from benchmarks.nights import add_night
from benchmarks.process_tree import cpu_of
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.replay.stages import CURRENT, PREVIOUS
from kgroups_spark.spark.session import spark_session
from kgroups_spark.tables.schemas import CHECKPOINTS

REPLACED = (*CURRENT, "topics", PREVIOUS, CHECKPOINTS)


def main(arguments: list[str]) -> int:
    segments, work, rounds = Path(arguments[0]), Path(arguments[1]), int(arguments[2])
    first, lake, broker = work / "first-lake", work / "lake", work / "broker"
    for made in (first, broker):
        shutil.rmtree(made, ignore_errors=True)
    extra = FULL_JIT if "--full-jit" in arguments else {}
    spark = spark_session("benchmark", {"spark.master": "local[2]", **extra})

    def audit(where: Path) -> None:
        run_audit(spark, AuditOptions(lake=str(where), segments=[str(broker)]))

    add_night(segments / "1", broker)
    audit(first)
    add_night(segments / "2", broker)

    def one_round() -> dict[str, float]:
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(first, lake)
        seconds = {"night": cpu_of(lambda: audit(lake))}
        files = _files_of_replaced(spark, lake)
        seconds["tables"] = cpu_of(lambda: _read_and_write(files, work / "written.parquet"))
        return seconds

    one_round()
    result = {"rounds": [one_round() for _ in range(rounds)]}
    spark.stop()
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


def _files_of_replaced(spark: SparkSession, lake: Path) -> list[list[str]]:
    """The Parquet files of each table that an audit replaces."""
    opened = Lake.open(spark, str(lake))
    files = [[str(lake / name / file.path) for file in opened.table(name).files()] for name in REPLACED]
    return [each for each in files if each]


def _read_and_write(files: list[list[str]], written: Path) -> None:
    for paths in files:
        pq.write_table(pq.read_table(paths), written, compression="zstd")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
