"""Nights that are disturbed at random moments, one after another in this process; part of the soak (soak.py).

A night is tried several times before it may end: killed before or after a commit, stalled in one while another host
takes over and finishes, or with its segments' files replaced while it runs. Its tables are then those of a lake to
which nothing happened.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from kgroups_spark.audit.maintain import MaintainOptions, run_maintain
from kgroups_spark.audit.run_rebuild import RebuildOptions, run_rebuild
from kgroups_spark.tables.claim import ClaimLost
from tests.audit.lakes import contents, copy_until, versions
from tests.crash.commit_points import (
    AFTER,
    BEFORE,
    CommitPoint,
    StorageGone,
    assert_lake_is_sound,
    at_each_commit,
    audit,
)

KINDS = ("kill", "stall", "swap")
NIGHTS = ("audit", "audit", "rebuild", "maintain")


class Disturbances:
    """So many disturbances of nights of random logs, by the random choices of one seed."""

    def __init__(self, spark: Any, seed: int, wanted: int, folder: Path, tell: Callable[[str], None]) -> None:
        self.spark, self.random, self.wanted, self.folder = spark, random.Random(seed), wanted, folder
        self.tell, self.done = tell, Counter[str]()
        # How many commits a try came by, of the last one of its kind: where the next one breaks is random.
        self.commits: dict[str, int] = {}

    def run(self, logs: Sequence[Path]) -> None:
        """Raises AssertionError where tables differ."""
        number = 0
        while self.done.total() < self.wanted:
            number += 1
            self._lake(self.folder / f"lake-{number}", self.random.choice(logs))

    def _lake(self, folder: Path, whole: Path) -> None:
        log, lake, undisturbed = folder / "log", folder / "lake", folder / "undisturbed"
        folder.mkdir(parents=True)
        cuts = sorted(self.random.uniform(0.2, 0.95) for _ in range(2))
        for night, cut in enumerate([*cuts, 1.0]):
            copy_until(whole, log, cut)
            for _ in range(self.random.randint(2, 5)):
                what = self._disturb(lake, log, "audit" if night == 0 else self.random.choice(NIGHTS))
                self.done[what] += 1
            audit(self.spark, lake, log)
            audit(self.spark, undisturbed, log)
            assert_lake_is_sound(lake, contents(undisturbed))
        self.tell(
            f"  {self.done.total():4d} of {self.wanted}: {dict(self.done)}; {whole.name} is as if nothing had happened"
        )
        shutil.rmtree(folder)

    def _disturb(self, lake: Path, log: Path, name: str) -> str:
        """Which disturbance it was; the lake may then have one more finished audit or not."""
        kind = self.random.choice(KINDS)
        at, when = self.random.randrange(self.commits.get(name, 30)), self.random.choice((BEFORE, AFTER))
        seen = 0
        left: dict[str, int] = {}

        def act(point: CommitPoint, now: str) -> None:
            nonlocal seen
            if now == BEFORE:
                seen += 1
            if seen != at + 1 or left:
                return
            if kind == "kill" and now == when:
                raise StorageGone
            if kind == "swap" and now == BEFORE:
                left["swapped"] = 0
                replace_files(log)
            if kind == "stall" and now == BEFORE and (lake / "audits").exists() and point[1] != "create":
                left["stalled"] = 0
                with mock.patch("kgroups_spark.tables.owner.this_host", lambda: "elsewhere"):
                    audit(self.spark, lake, log, take_over=True)
                left.update(versions(lake))

        try:
            with at_each_commit(act):
                self._try(lake, log, name, kind == "swap")
            self.commits[name] = seen
        except StorageGone:
            return f"{name} killed"
        except ClaimLost:
            assert left.pop("stalled", None) == 0, "the claim was lost to nobody"
            assert versions(lake) == left, f"{lake}: who stalled in commit {at} changed something"
            return f"{name} stalled"
        return f"{name} swapped" if kind == "swap" else f"{name} over before"

    def _try(self, lake: Path, log: Path, name: str, swaps: bool) -> None:
        if name == "audit":
            told = self.random.randrange(4)

            def progress(line: str) -> None:
                nonlocal told
                told -= 1
                if swaps and told == 0:
                    replace_files(log)

            audit(self.spark, lake, log, progress=progress)
        elif name == "rebuild":
            run_rebuild(self.spark, RebuildOptions(lake=str(lake), writer="parts"))
        else:
            run_maintain(self.spark, MaintainOptions(lake=str(lake), writer="parts"))


def replace_files(log: Path) -> None:
    """Puts a new file of the same bytes in the place of each segment, as a cleaner that has nothing to remove does."""
    for segment in log.glob("*/*.log"):
        copy = segment.with_suffix(".swap")
        shutil.copyfile(segment, copy)
        copy.replace(segment)
