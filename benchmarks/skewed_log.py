"""An audit of a log in which one partition has most of the records, against one of an even log; prints a line of JSON.

    python -m benchmarks.skewed_log SKEWED EVEN WORK ROUNDS [--full-jit]

`rounds`: seconds by the clock, on two workers, of an audit of each into a new lake, in alternation. They show how long
the other worker waits for the larger partition. A round before them warms up and is not counted.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from benchmarks import FULL_JIT
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.spark.session import spark_session


def main(arguments: list[str]) -> int:
    logs, lake, rounds = dict(zip(("skewed", "even"), arguments, strict=False)), Path(arguments[2]), int(arguments[3])
    extra = FULL_JIT if "--full-jit" in arguments else {}
    spark = spark_session("benchmark", {"spark.master": "local[2]", **extra})

    def seconds_of(segments: str) -> float:
        shutil.rmtree(lake, ignore_errors=True)
        start = time.perf_counter()
        run_audit(spark, AuditOptions(lake=str(lake), segments=[segments]))
        return time.perf_counter() - start

    def one_round() -> dict[str, float]:
        return {name: seconds_of(segments) for name, segments in logs.items()}

    one_round()
    result = {"rounds": [one_round() for _ in range(rounds)]}
    spark.stop()
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
