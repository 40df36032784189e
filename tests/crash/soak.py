"""Audits killed at random moments, night after night; in the end their tables are those of lakes that nothing happened
to.

    python -m tests.crash.soak [--disturbances 1000] [--beside-spark 100] [--kills 40] [--seed N] [--keep DIR]

First come disturbances in this process (disturbances.py): many without a JVM, then some with Spark and Delta, then
kills of processes. Each round of kills takes a recorded log, cuts it into random nights, and sends SIGKILL to `kgroups
audit`: to all of it, to its JVM, or to its Python workers. After each kill, readers must see the last
finished audit. Ends with exit code 1 and the place of the lakes if any table differs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kgroups_spark.errors import KgroupsError
from kgroups_spark.spark.session import spark_session
from tests.crash.commit_points import assert_lake_is_sound, audit, current_tables
from tests.crash.disturbances import RUNS, RUNS_WITHOUT_A_JVM, Disturbances
from tests.crash.processes import PATIENCE_S, kill_all, kill_jvm, kill_workers, next_log_of, started_audit
from tests.nights.lakes import contents, copy_until, rows
from tests.protocol.local_spark import LocalSpark, without_a_jvm
from tests.recorded_logs import CORPORA

# A round of disturbances.
ROUND = 50
VICTIMS = ("all", "all", "java", "workers")
# Settled or counted by night: of one audit of the whole they are others.
BY_NIGHT = ("offset_commits", "group_traffic")


def tell(line: str) -> None:
    """Says a line at once: a soak takes long."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Soak:
    """One run: its random choices, its session for readers and undisturbed audits, and how many kills are left."""

    def __init__(self, spark: SparkSession, seed: int, kills: int, folder: Path) -> None:
        self.spark, self.random, self.folder = spark, random.Random(seed), folder
        self.wanted, self.kills, self.tried = kills, 0, 0
        self.reported: Counter[str] = Counter()
        # How long an audit took from its claim to its end: where in it the kill falls is random.
        self.seconds = 8.0

    def run(self, logs: Sequence[Path]) -> None:
        """Rounds until there were enough kills. Raises AssertionError where tables differ."""
        number = 0
        while self.kills < self.wanted:
            number += 1
            self._round(self.folder / f"round-{number}", self.random.choice(logs))

    def _round(self, folder: Path, whole: Path) -> None:
        cuts = sorted(self.random.uniform(0.1, 0.95) for _ in range(self.random.randint(2, 4)))
        tell(f"round in {folder.name}: {whole.name}, nights at {', '.join(f'{cut:.2f}' for cut in cuts)} and 1.00")
        log, lake, undisturbed = folder / "log", folder / "lake", folder / "undisturbed"
        folder.mkdir()
        for night, cut in enumerate([*cuts, 1.0], 1):
            copy_until(whole, log, cut)
            for _ in range(self.random.choice([1, 2, 3])):
                if self.kills < self.wanted:
                    self._attempt(lake, log, night)
            audit(self.spark, lake, log)
            audit(self.spark, undisturbed, log)
            assert_lake_is_sound(lake, contents(undisturbed))
        audit(self.spark, folder / "at-once", whole)
        of_whole = contents(folder / "at-once")
        assert_lake_is_sound(lake, {name: of_whole[name] for name in of_whole if name not in BY_NIGHT})
        tell(f"  {len(rows(lake, 'audits')):3d} rows in the ledger; the tables are as if nothing had happened")
        shutil.rmtree(folder)

    def _attempt(self, lake: Path, log: Path, night: int) -> None:
        """An audit as a process, killed unless it is over before."""
        victim = self.random.choice(VICTIMS)
        finished = [row["audit_id"] for row in _ledger(lake) if row["status"] == "finished"]
        before = current_tables(self.spark, lake) if finished else None
        wait = self.random.uniform(-0.1, 1.0) * self.seconds
        claim = next_log_of(lake, "audits") if finished else lake / "audits" / "_delta_log" / f"{1:020d}.json"
        with started_audit(lake, log) as process:
            started = time.monotonic()
            while not claim.exists() and process.poll() is None and wait > 0:
                assert time.monotonic() - started < PATIENCE_S
                time.sleep(0.005)
            claimed = time.monotonic()
            while time.monotonic() - claimed < wait and process.poll() is None:
                time.sleep(0.005)
            self.tried += 1
            was_killed = process.poll() is None and self._kill(process, victim)
            code = process.wait(PATIENCE_S)
        if code == 0:
            self.seconds = 0.7 * self.seconds + 0.3 * (time.monotonic() - claimed)
        self.kills += was_killed
        now_finished = [row["audit_id"] for row in _ledger(lake) if row["status"] == "finished"]
        what = f"{victim} killed" if was_killed else "over before the kill"
        tell(
            f"  {self.kills:3d} of {self.wanted}: night {night}, {what} "
            f"{time.monotonic() - claimed:.2f} s after the claim, exit {code}, {_commits(lake)} commits in the lake"
        )
        self.reported[what] += 1
        if was_killed and before is not None and now_finished == finished:
            assert current_tables(self.spark, lake) == before, f"{lake}: readers see half an audit"

    def _kill(self, process: subprocess.Popen[str], victim: str) -> bool:
        if victim == "all":
            kill_all(process)
            return True
        if victim == "java":
            return kill_jvm(process)
        # A worker that has just finished its task is not missed: again, until it hurts or the audit is over.
        killed = False
        while process.poll() is None:
            killed |= kill_workers(process.pid)
            time.sleep(0.01)
        return killed


def _ledger(lake: Path) -> list[dict[str, object]]:
    return rows(lake, "audits") if (lake / "audits" / "_delta_log").exists() else []


def _commits(lake: Path) -> int:
    return sum(1 for _ in lake.glob("*/_delta_log/*.json"))


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
    """The part that needs Spark and Delta: fewer disturbances, and kills of processes."""
    settings = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    spark = spark_session("soak", settings)
    try:
        disturb(spark, options.beside_spark, options.seed, folder / "spark", RUNS)
        soak = Soak(spark, options.seed, options.kills, folder)
        soak.run(list(recorded_logs(folder)))
    finally:
        spark.stop()
    tell(f"{soak.kills} kills of {soak.tried} audits with seed {options.seed}: {dict(soak.reported)}; no trace of any")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument(
        "--disturbances", type=int, default=1000, help="without a JVM: kills, stalls, segments cleaned and merged"
    )
    parser.add_argument("--beside-spark", type=int, default=100, help="the same of whole audits by Spark and Delta")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", type=Path, help="where the lakes of a round that failed stay (default: temporary)")
    options = parser.parse_args(arguments)
    tell(f"seed {options.seed}")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="kgroups-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with without_a_jvm():
            disturb(LocalSpark(), options.disturbances, options.seed, folder / "local", RUNS_WITHOUT_A_JVM)
        beside_spark(options, folder)
    except (AssertionError, KgroupsError) as difference:
        traceback.print_exc()
        tell(f"FAILED with seed {options.seed}, lakes in {folder}: {str(difference)[:2000]}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
