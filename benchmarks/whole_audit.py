"""Whole audits in one Spark session against Spark's own writer, in alternation; prints one line of JSON.

    python -m benchmarks.whole_audit SEGMENTS WORK ROUNDS [--full-jit]

`rounds`: CPU seconds of the process tree (this process, the JVM, the workers): `write` for Spark writing ready commits,
`audit` for an audit into a new lake, `second` for another one without new records, `local` for one without Spark (in a
process of its own, without its imports). A round before them warms up and is
not counted; its audit gives `worker_bytes`, the largest worker's peak. With 0 rounds there is only that audit.

Our session on one machine runs the JVM without its second compiler and without G1, which suits a nightly run;
`--full-jit` gives both sides the default JVM.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import FULL_JIT
from benchmarks.process_tree import cpu_of, peak_worker_bytes
from benchmarks.ready_commits import prepare, write_by_spark
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.spark.session import spark_session


def main(arguments: list[str]) -> int:
    segments, work, rounds = arguments[0], Path(arguments[1]), int(arguments[2])
    work.mkdir(parents=True, exist_ok=True)
    paths = prepare(segments, work / "ready") if rounds else []
    extra = FULL_JIT if "--full-jit" in arguments else {}
    spark = spark_session("benchmark", {"spark.master": "local[2]", **extra})
    lake, local_lake, table = (str(work / name) for name in ("lake", "local-lake", "table"))

    def audit() -> None:
        run_audit(spark, AuditOptions(lake=lake, segments=[segments]))

    def local() -> float:
        command = [sys.executable, "-m", "benchmarks.in_process", segments, local_lake]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return float(json.loads(done.stdout)["audit"])

    def one_round() -> dict[str, float]:
        seconds = {"audit": cpu_of(audit), "second": cpu_of(audit), "local": local()}
        if paths:
            seconds["write"] = cpu_of(lambda: write_by_spark(spark, paths, table))
        for made in (lake, local_lake, table):
            shutil.rmtree(made, ignore_errors=True)
        return seconds

    audit()
    result: dict[str, object] = {"worker_bytes": peak_worker_bytes()}
    shutil.rmtree(lake)
    if rounds:
        one_round()
    result["rounds"] = [one_round() for _ in range(rounds)]
    spark.stop()
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
