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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from deltalake import DeltaTable

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.run import RebuildOptions, run_rebuild
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.claim import ClaimLost
from kgroups_spark.lake.last_finished import FINISHED, STATUSES
from kgroups_spark.lake.local import Local
from kgroups_spark.spark.session import spark_session
from tests.crash.commit_points import (
    AFTER,
    BEFORE,
    CommitPoint,
    StorageGone,
    assert_lake_is_sound,
    at_each_commit,
    audit,
)
from tests.logs.cleaner import GrowingLog
from tests.logs.log_files import read_folder
from tests.nights.cleaned_nights import random_night, write_folder
from tests.nights.lakes import contents
from tests.protocol.fake_delta import LOOP
from tests.recorded_logs import unpacked

# A night is tried several times before it may end: killed before or after a commit, or stalled in one while another
# host takes over and finishes.
KINDS = ("kill", "stall")
RUNS = ("audit", "audit", "rebuild", "maintain")
# A rebuild is made of Spark's own operations: the others run without a JVM, too (kgroups_spark/lake/local.py).
RUNS_WITHOUT_A_JVM = ("audit", "audit", "maintain")
NIGHTS = 4
# How often a night is tried; once an audit has read its new records, the next night comes soon.
TRIES = 6
NIGHT_ENDS = 0.8
# A run whose commits are not known yet is disturbed at one of so many, or else ends and shows them.
UNKNOWN_COMMITS = 40


class Try:
    """One run of an audit, a rebuild or maintenance, disturbed at `at`: a commit point, or how many it is to come by
    before. `seen` are the points that it came by, `struck` is the one where it was disturbed (None: over before)."""

    def __init__(self, run: str, kind: str, at: CommitPoint | int, when: str) -> None:
        self.run, self.kind, self.at, self.when = run, kind, at, when
        self.seen: list[CommitPoint] = []
        self.struck: CommitPoint | None = None

    def is_due(self, point: CommitPoint, now: str) -> bool:
        """Called at each moment, in order; True once."""
        if self.struck is not None:
            return False
        if now == BEFORE:
            self.seen.append(point)
        reached = point == self.at if isinstance(self.at, tuple) else len(self.seen) > self.at
        if not reached or now != (self.when if self.kind == "kill" else BEFORE):
            return False
        self.struck = point
        return True

    def __str__(self) -> str:
        return f"{self.run}, {self.kind}, {operation(self.struck)}"


def operation(point: CommitPoint | None) -> str:
    """A word for the commit."""
    if point is None:
        return "over before"
    if point[:2] == ("audits", "append"):
        return "finish" if point[2] else "claim"
    return point[1]


class Disturbances:
    """So many disturbances of nights of random logs, by the random choices of one seed. `done` counts them, without
    those that were over before anything happened. `spark`: a session, or a Local (kgroups_spark/lake/local.py)."""

    def __init__(
        self, spark: Any, seed: int, wanted: int, folder: Path, say: Callable[[str], None], runs: Sequence[str] = RUNS
    ) -> None:
        self.spark, self.random, self.wanted, self.folder = spark, random.Random(seed), wanted, folder
        self.runs = runs
        self.say, self.done, self.over_before = say, Counter[str](), 0
        # The most commit points of a run that ended, by what it was and found: from them the next one's is chosen.
        self.points: dict[tuple[str, str], list[CommitPoint]] = {}

    def run(self, logs: Sequence[Path]) -> None:
        """Raises AssertionError where tables differ."""
        number = 0
        while self.done.total() < self.wanted:
            number += 1
            self._lake(self.folder / f"lake-{number}", self.random.choice(logs))

    def _lake(self, folder: Path, whole: Path) -> None:
        folder.mkdir(parents=True)
        lake, undisturbed = folder / "lake", folder / "undisturbed"
        growing, rng = GrowingLog(read_folder(whole)), np.random.default_rng(self.random.getrandbits(32))
        log = folder / "log"
        for nights_left in range(NIGHTS, 0, -1):
            random_night(growing, rng, nights_left)
            write_folder(log, growing.files)
            for _ in range(TRIES):
                finished = _finished(lake)
                self._disturb(lake, log, "audit" if nights_left == NIGHTS else self.random.choice(self.runs))
                if _finished(lake) != finished and self.random.random() < NIGHT_ENDS:
                    break
            audit(self.spark, lake, log)
            audit(self.spark, undisturbed, log)
            assert_lake_is_sound(lake, contents(undisturbed))
            if self.done.total() >= self.wanted:
                break
        self.say(f"  {self.done.total():4d} of {self.wanted}: {whole.name} is as if nothing had happened")
        shutil.rmtree(folder)

    def _disturb(self, lake: Path, log: Path, run: str) -> None:
        """One try; the lake may then have one more finished audit or not."""
        state = run, _state(lake)
        tried = Try(run, self.random.choice(KINDS), self._moment(*state), self.random.choice((BEFORE, AFTER)))
        if self._ends(tried, lake, log) and not (tried.kind == "stall" and tried.struck):
            self.points[state] = max(self.points.get(state, []), tried.seen, key=len)
        if tried.struck is None:
            self.over_before += 1
        else:
            self.done[str(tried)] += 1
            self.say(f"  {self.done.total():4d} of {self.wanted}: {tried} {tried.struck[0]} ({state[1]})")

    def _moment(self, run: str, state: str) -> CommitPoint | int:
        """Every operation is as likely as any other, however many commits it has."""
        points = self.points.get((run, state), [])
        if not points:
            return self.random.randrange(UNKNOWN_COMMITS)
        chosen = self.random.choice(sorted({operation(point) for point in points}))
        return self.random.choice([point for point in points if operation(point) == chosen])

    def _ends(self, tried: Try, lake: Path, log: Path) -> bool:
        """Whether it got to its end."""
        left: set[Path] = set()

        def act(point: CommitPoint, now: str) -> None:
            if not tried.is_due(point, now):
                return
            if tried.kind == "kill":
                raise StorageGone
            with mock.patch("kgroups_spark.lake.last_finished.this_host", lambda: "elsewhere"):
                audit(self.spark, lake, log, take_over=True)
            left.update(_commits(lake))

        try:
            with at_each_commit(act):
                self._run(tried.run, lake, log)
        except StorageGone:
            return False
        except ClaimLost as lost:
            assert left, f"{lake}: the claim was lost to nobody: {lost}"
            assert _commits(lake) == left, f"{lake}: {tried} changed something"
            return False
        except KgroupsError as refused:
            assert "an unfinished audit" in str(refused), f"{lake}: {tried}: {refused}"
            assert tried.run == "maintain", f"{lake}: {tried}: {refused}"
        # It had no claim yet: it goes on after the other one.
        assert not left or operation(tried.struck) == "create", f"{lake}: {tried} did not notice"
        return True

    def _run(self, run: str, lake: Path, log: Path) -> None:
        if run == "audit":
            audit(self.spark, lake, log)
        elif run == "rebuild":
            run_rebuild(self.spark, RebuildOptions(lake=str(lake)))
        else:
            run_maintain(self.spark, MaintainOptions(lake=str(lake)))


def _ledger(lake: Path) -> list[tuple[int, str]]:
    """The audits and their statuses, in the order in which an audit gets them; nothing where there is no lake."""
    if not (lake / "audits" / "_delta_log").exists():
        return []
    rows = DeltaTable(f"{lake}/audits").to_pyarrow_table(columns=["audit_id", "status"]).to_pylist()
    return sorted(((row["audit_id"], row["status"]) for row in rows), key=lambda row: (row[0], STATUSES.index(row[1])))


def _finished(lake: Path) -> int:
    """How many audits the ledger calls so."""
    return sum(status == FINISHED for _, status in _ledger(lake))


def _state(lake: Path) -> str:
    if not (lake / "audits" / "_delta_log").exists():
        return "new lake"
    ledger = _ledger(lake)
    return "sound lake" if not ledger or ledger[-1][1] == FINISHED else "to be cleared up"


def _commits(lake: Path) -> set[Path]:
    """The files of the tables' logs."""
    return set(lake.glob("*/_delta_log/*.json"))


# A round of disturbances.
ROUND = 50


def tell(line: str) -> None:
    """Says a line at once: a soak takes long."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def recorded_logs(folder: Path) -> Iterator[Path]:
    """The logs that the tests use, a folder each."""
    yield from sorted(path for path in unpacked(folder).iterdir() if path.is_dir())


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
