"""Nights disturbed at random moments; in the end their tables are those of lakes that nothing happened to.

    python -m tests.crash.soak [--disturbances 1000] [--beside-spark 100] [--seed N] [--keep DIR]

Disturbances in this process (disturbances.py): many without a JVM, then some with Spark and Delta. Ends with exit code
1 and the path of the lakes if any table differs. Kills of processes are in test_kills.py.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.local import Local
from kgroups_spark.spark.session import spark_session
from tests.crash.disturbances import RUNS, RUNS_WITHOUT_A_JVM, Disturbances
from tests.protocol.fake_delta import LOOP
from tests.recorded_logs import CORPORA

# A round of disturbances.
ROUND = 50


def tell(line: str) -> None:
    """Says a line at once: a soak takes long."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def recorded_logs(folder: Path) -> Iterator[Path]:
    """The logs that the tests use, a folder each."""
    with zipfile.ZipFile(CORPORA) as archive:
        archive.extractall(folder)
    yield from sorted(path for path in (folder / "logs").iterdir() if path.is_dir())


def disturb(spark: Any, wanted: int, seed: int, folder: Path, runs: Sequence[str]) -> None:
    """Disturbances in rounds, each with the next seed: one can be repeated without those before it."""
    started, done, over_before = time.monotonic(), Counter[str](), 0
    logs = list(recorded_logs(folder))
    while done.total() < wanted:
        at_most = min(ROUND, wanted - done.total())
        tell(f"--seed {seed} --disturbances {at_most}")
        disturbances = Disturbances(spark, seed, at_most, folder / f"disturbed-{seed}", tell, runs)
        disturbances.run(logs)
        done, over_before, seed = done + disturbances.done, over_before + disturbances.over_before, seed + 1
    for what, count in sorted(done.items()):
        tell(f"  {count:4d} {what}")
    each = (time.monotonic() - started) / max(1, done.total())
    tell(f"{done.total()} disturbances, {each:.1f} s each; {over_before} were over before")


def beside_spark(options: argparse.Namespace, folder: Path) -> None:
    """The part that needs Spark and Delta: fewer disturbances."""
    settings = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    spark = spark_session("soak", settings)
    try:
        disturb(spark, options.beside_spark, options.seed, folder / "spark", RUNS)
    finally:
        spark.stop()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--disturbances", type=int, default=1000, help="without a JVM: kills, stalls")
    parser.add_argument("--beside-spark", type=int, default=100, help="the same of whole audits by Spark and Delta")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", type=Path, help="where the lakes of a round that failed stay (default: temporary)")
    options = parser.parse_args(arguments)
    tell(f"seed {options.seed}")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="kgroups-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        disturb(Local(runner=LOOP), options.disturbances, options.seed, folder / "local", RUNS_WITHOUT_A_JVM)
        beside_spark(options, folder)
    except (AssertionError, KgroupsError) as difference:
        traceback.print_exc()
        tell(f"FAILED with seed {options.seed}, lakes in {folder}: {str(difference)[:2000]}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
