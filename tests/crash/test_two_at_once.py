"""Two audits of one lake as two processes: one finishes, the other stops early and says why."""

from __future__ import annotations

import shutil

import pytest

from tests.crash.commit_points import assert_lake_is_sound
from tests.crash.processes import end_of, said_by, started_audit
from tests.nights.lakes import rows

# `make test` checks that one of two audits by Spark that claim at once wins: lake/test_claim.py.
BY_SPARK = [pytest.mark.spark, pytest.mark.soak]

# An audit that starts a little later finds a claim. Delta refuses one that claims at the same time.
REFUSALS = ("is running (process ", "has just claimed number 2", "has claimed the lake")


@pytest.mark.parametrize(
    "engines",
    [
        ("local", "local"),
        pytest.param(("spark", "spark"), marks=BY_SPARK),
        pytest.param(("local", "spark"), marks=BY_SPARK),
    ],
    ids="-".join,
)
def test_one_of_two_audits_started_at_once_finishes_and_one_stops_early(nights, tmp_path, engines):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    other = tmp_path / "other"
    other.symlink_to(lake)
    mine, its = (("--engine", engine) for engine in engines)
    with started_audit(lake, nights.second, *mine) as one, started_audit(other, nights.second, *its) as two:
        codes = sorted(map(end_of, (one, two)))
    said = [said_by(place) for place in (lake, other)]
    finished = sorted(row["audit_id"] for row in rows(lake, "audits") if row["status"] == "finished")
    if codes == [0, 0]:
        # One was over before the other began: it found nothing new.
        assert finished == [1, 2, 3], said
    else:
        assert (codes, finished) == ([0, 1], [1, 2]), said
        loser = next(text for text in said if "audit failed" in text or any(word in text for word in REFUSALS))
        assert any(word in loser.rstrip().rpartition("\n")[2] for word in REFUSALS), said
        assert "Traceback" not in loser
    assert_lake_is_sound(lake, nights.expected)
