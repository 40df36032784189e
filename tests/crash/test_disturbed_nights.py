"""Nights that are disturbed at random commits; in the end their tables are those of a lake that nothing happened to.

A run is killed before or after a commit, or it stalls before one, in which another host takes over and finishes.
"""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from unittest import mock

import numpy as np
import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.run import RebuildOptions, run_rebuild
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.claim import ClaimLost
from kgroups_spark.lake.local import Local
from tests.crash.commit_points import (
    AFTER,
    BEFORE,
    assert_lake_is_sound,
    at_each_commit,
    audit,
    broken_at,
    commit_points,
)
from tests.logs.cleaner import GrowingLog
from tests.logs.log_files import read_folder
from tests.nights.cleaned_nights import random_night, write_folder
from tests.nights.lakes import contents
from tests.recorded_logs import unpacked

pytestmark = pytest.mark.usefixtures("findings_not_sought")
NIGHTS, DISTURBANCES = 3, 3


class DisturbedLake:
    def __init__(self, engine, folder, rng):
        self.engine, self.rng = engine, rng
        self.lake, self.log, self.copy = folder / "lake", folder / "log", folder / "copy"

    def disturb(self, kind):
        """A run of that kind, at one of its commits: each operation is as likely as any other."""
        if self.lake.exists():
            shutil.copytree(self.lake, self.copy)
        try:
            points = commit_points(lambda: self.run(kind, self.copy))
        except KgroupsError as refused:
            assert kind == "maintain" and "has an unfinished audit" in str(refused), refused
            return
        finally:
            shutil.rmtree(self.copy)
        of = self.rng.choice(sorted({(table == "audits", operation) for table, operation, _ in points}))
        point = self.rng.choice([each for each in points if (each[0] == "audits", each[1]) == of])
        how = self.rng.choice((BEFORE, AFTER, "stalls"))
        print(kind, how, point)  # noqa: T201  pytest shows it if the test fails
        if how == "stalls":
            self.stall(kind, point)
        else:
            broken_at(point, how, lambda: self.run(kind, self.lake))

    def stall(self, kind, point):
        """It changes nothing when it wakes, unless it had no claim yet: then it goes on after the other one."""
        left = []

        def act(at, now):
            if (at, now) == (point, BEFORE) and not left:
                with mock.patch("kgroups_spark.lake.last_finished.this_host", lambda: "elsewhere"):
                    audit(self.engine, self.lake, self.log, take_over=True)
                left.append(self.commits())

        with at_each_commit(act), suppress(ClaimLost):
            self.run(kind, self.lake)
            assert point[1] == "create"
            return
        assert left == [self.commits()]

    def commits(self):
        return set(self.lake.glob("*/_delta_log/*.json"))

    def run(self, kind, lake):
        if kind == "audit":
            audit(self.engine, lake, self.log)
        elif kind == "rebuild":
            run_rebuild(self.engine, RebuildOptions(lake=str(lake)))
        else:
            run_maintain(self.engine, MaintainOptions(lake=str(lake)))


def test_disturbed_nights_leave_the_tables_of_undisturbed_nights(session, tmp_path, chosen):
    """In a soak so many that each operation of a run of each kind is disturbed often; by Spark a tenth of them."""
    logs = sorted(unpacked(tmp_path).iterdir())
    for seed in chosen.some(range(100 if isinstance(session, Local) else 10), 1):
        rng, folder = random.Random(seed), tmp_path / str(seed)
        folder.mkdir()
        disturbed, undisturbed = DisturbedLake(session, folder, rng), folder / "undisturbed"
        growing, numbers = GrowingLog(read_folder(rng.choice(logs))), np.random.default_rng(seed)
        for night in range(NIGHTS):
            random_night(growing, numbers, NIGHTS - night)
            write_folder(disturbed.log, growing.files)
            for _ in range(rng.randrange(1, DISTURBANCES + 1)):
                disturbed.disturb(rng.choice(("audit", "audit", "rebuild", "maintain")) if night else "audit")
            for lake in (disturbed.lake, undisturbed):
                audit(session, lake, disturbed.log)
            assert_lake_is_sound(disturbed.lake, contents(undisturbed))
        shutil.rmtree(folder)
