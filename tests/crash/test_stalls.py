"""Whole audits that stall in a commit, wake after another host took over and finished, and change nothing.

tests/protocol has every stall without Spark; here are some of them with everything that an audit does.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kgroups_spark.audit.keep import MaintainOptions
from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.run_rebuild import RebuildOptions, run_rebuild
from kgroups_spark.lake.claim import ClaimLost
from tests.crash.commit_points import (
    BEFORE,
    CommitPoint,
    assert_lake_is_sound,
    at_each_commit,
    audit,
    broken_at,
    commit_points,
)
from tests.nights.lakes import versions


def stalled_at(point: CommitPoint, do: Callable[[], object], other: Callable[[], object], lake: Path) -> None:
    """Does it, and the other on another host between its look at the claim and that commit. Raises AssertionError if it
    then changes the lake, or does not say that it was taken over."""
    left: dict[str, int] = {}

    def act(at: CommitPoint, when: str) -> None:
        if (at, when) == (point, BEFORE) and not left:
            left["stalled"] = 0
            with mock.patch("kgroups_spark.lake.claim.this_host", lambda: "elsewhere"):
                other()
            left.update(versions(lake))

    # Maintenance takes a number twice: a run that stalls at the second claim finds it taken.
    with pytest.raises(ClaimLost, match=r"audit \d+ stops|has just claimed number \d+"), at_each_commit(act):
        do()
    del left["stalled"]
    assert versions(lake) == left, point


# They ask more of Spark than this process can answer; tests/protocol has stalls of both without it.
BY_SPARK = [pytest.param(name, marks=[pytest.mark.soak, pytest.mark.spark]) for name in ("rebuild", "maintain")]


@pytest.mark.parametrize("name", ["audit", *BY_SPARK])
def test_a_run_that_wakes_after_another_host_finished_changes_nothing(session, nights, tmp_path, chosen, name):
    def tried(lake: Path) -> Any:
        if name == "audit":
            return audit(session, lake, nights.second)
        if name == "rebuild":
            return run_rebuild(session, RebuildOptions(lake=str(lake)))
        return run_maintain(session, MaintainOptions(lake=str(lake), keep_ms=0))

    killed = tmp_path / "killed"
    shutil.copytree(nights.lake, killed)
    if name == "audit":
        # It has to clear up, too.
        broken_at(("audits", "append", 1), BEFORE, lambda: audit(session, killed, nights.second))
    shutil.copytree(killed, tmp_path / "undisturbed")
    _, *points = commit_points(lambda: tried(tmp_path / "undisturbed"))
    operations = {"audit": "delete", "rebuild": "replace", "maintain": "replace"}
    removing = [point for point in points if point[1] == operations[name]]
    for number, point in enumerate([*chosen.some(removing, 1), *chosen.some(points, 1 if name == "audit" else 0)]):
        lake = tmp_path / f"lake-{number}"
        shutil.copytree(killed, lake)
        stalled_at(
            point,
            lambda lake=lake: tried(lake),
            lambda lake=lake: audit(session, lake, nights.second, take_over=True),
            lake,
        )
        if name != "maintain":
            assert_lake_is_sound(lake, nights.expected)
        shutil.rmtree(lake)
