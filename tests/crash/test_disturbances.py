"""Whole audits and maintenance, killed and stalled at random moments, leave the tables of audits to which nothing
happened.

Here without a JVM; `python -m tests.crash.soak` does so a thousand times, and then beside Spark.
"""

from __future__ import annotations

from unittest import mock

import pytest

from kgroups_spark.lake.claim import ClaimLost
from kgroups_spark.lake.local import Local
from tests.crash.commit_points import audit
from tests.crash.disturbances import RUNS_WITHOUT_A_JVM, Disturbances
from tests.crash.soak import recorded_logs
from tests.protocol.fake_delta import LOOP


def test_disturbed_nights_leave_the_tables_of_undisturbed_nights(tmp_path, chosen):
    logs = list(recorded_logs(tmp_path))
    for seed in chosen.some(range(20), 1):
        disturbances = Disturbances(Local(runner=LOOP), seed, 6, tmp_path / str(seed), print, RUNS_WITHOUT_A_JVM)
        disturbances.run(logs)
        assert disturbances.done.total() >= 6


@pytest.mark.parametrize("at", ["reading ", "replaying "])
def test_an_audit_that_is_taken_over_while_its_tasks_run_says_so(tmp_path, at):
    """The audit that took over has removed the work files of the other one's tasks."""
    log, lake, spark = next(recorded_logs(tmp_path)), tmp_path / "lake", Local(runner=LOOP)
    taken_over: list[int] = []

    def stalls(line: str) -> None:
        if line.startswith(at) and not taken_over:
            with mock.patch("kgroups_spark.lake.last_finished.this_host", lambda: "elsewhere"):
                taken_over.append(audit(spark, lake, log, take_over=True).audit.audit_id)

    with pytest.raises(ClaimLost, match=r"audit 1 stops: audit 2 .* has claimed the lake"):
        audit(spark, lake, log, progress=stalls)
    assert taken_over == [2]
    assert not list((lake / "_work").iterdir())
