"""When an audit judges: by its options, by its log, or by the clocks of the brokers that it reads from."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kgroups_spark.audit.log_source import AuditSettings
from kgroups_spark.audit.plan import AuditPlan
from kgroups_spark.audit.work import AuditWork, Moment, SavedState
from kgroups_spark.cluster import live_log
from kgroups_spark.cluster.requests import ClusterUnreachable
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.ledger import FINISHED, AuditRow, PartitionProgress
from kgroups_spark.replay.ranges import LogTimes, RangeProgress
from kgroups_spark.replay.shard_states import RECORDS_OF_A_TASK
from kgroups_spark.sources.partition_log import LeaderLost
from kgroups_spark.spark.tasks import Processes
from tests.findings.logs import DAY, HOUR, MINUTE
from tests.nights.nights_here import CLOCK_MS

NOW = CLOCK_MS


def at(ms):
    return datetime.fromtimestamp(ms / 1000, UTC)


def read(newest_ms, number=0):
    return RangeProgress(0, number, 0, 1, log_times=LogTimes(newest_ms=newest_ms))


def moment(*progress, as_of=None, before=None, live=False):
    source = SimpleNamespace(cluster=object(), logs=[]) if live else None
    settings = SimpleNamespace(clock_ms=NOW, as_of=as_of)
    work: Any = SimpleNamespace(lake=None, settings=settings, before=before, source=source, is_live=live)
    return Moment.of(cast(AuditWork, work), progress)


def judged_at(*progress, **more):
    found = moment(*progress, **more)
    return found.as_of_ms, found.known_until_ms, found.newest_ms


def test_an_audit_of_segments_judges_by_the_newest_time_in_the_log():
    assert judged_at(read(NOW - 2 * HOUR), read(NOW - HOUR)) == (NOW - HOUR, NOW - HOUR, NOW - HOUR)
    assert judged_at() == (NOW, NOW, None)
    # Records that are read again give no new time.
    assert judged_at(read(NOW - 2 * HOUR), read(NOW - HOUR, -1))[0] == NOW - 2 * HOUR


def test_the_users_moment_counts_and_knowledge_ends_with_the_log():
    log = read(NOW - DAY)
    assert judged_at(log, as_of=NOW) == (NOW, NOW - DAY, NOW - DAY)
    assert judged_at(log, as_of=NOW - 2 * DAY) == (NOW - 2 * DAY, NOW - 2 * DAY, NOW - DAY)


@pytest.fixture
def appended(monkeypatch):
    """Lets records come with these times while a live log is read, or makes its cluster not answer."""

    def come(*times, error=None):
        def asked(_cluster, _logs):
            if error is not None:
                raise error
            return list(times)

        monkeypatch.setattr(live_log, "times_appended", asked)

    return come


def test_a_live_audit_judges_by_records_that_came_while_it_was_reading(appended):
    appended(NOW - 8 * MINUTE, NOW - 5 * MINUTE)
    log = read(NOW - 20 * MINUTE)
    assert judged_at(log, live=True)[0] == NOW - 5 * MINUTE
    # Times that no record has and those far ahead of the clock do not count.
    appended(-1, NOW - 5 * MINUTE, NOW + DAY + 1)
    assert judged_at(log, live=True)[0] == NOW - 5 * MINUTE
    appended(-1)
    assert judged_at(log, live=True)[0] == NOW


@pytest.mark.parametrize("error", [ClusterUnreachable("no broker"), LeaderLost("no leader"), KgroupsError("expired")])
def test_without_an_answer_of_the_cluster_this_machines_clock_counts(error, appended):
    appended(error=error)
    found = moment(read(NOW - HOUR), live=True)
    assert found.as_of_ms == NOW
    assert "which nothing confirms" in found.notes[0]


def test_a_live_audit_never_judges_earlier_than_the_one_before(appended):
    appended(NOW - 5 * MINUTE)
    before = AuditRow(1, FINISHED, "host", at(NOW), as_of=at(NOW - MINUTE))
    assert judged_at(read(NOW - HOUR), before=before, live=True)[0] == NOW - MINUTE
    assert judged_at(read(NOW - HOUR), live=True)[0] == NOW - 5 * MINUTE


# The shards of a night go to tasks by their weight, and a small night is one task.
SLOTS = 2


def shards_by_task(state, read, of_groups=0):
    """The shards of each task, where the saved state has so many rows and the night has read so many records."""
    lake: Any = SimpleNamespace(runner=Processes(SLOTS))
    partitions = tuple(PartitionProgress(number, 0, 1) for number in state.keys() | read.keys())
    before = AuditRow(1, "finished", "t", datetime(2026, 1, 1, tzinfo=UTC), partitions=partitions)
    settings = AuditSettings("4.3", 1, "option", 1, 0)
    work = AuditWork(lake, None, AuditPlan([], None), before, SavedState(1, rows=state), settings, print)
    counts = Counter({(0, 1): 10, (2, 3): of_groups})
    progress = [RangeProgress(each, 0, 0, 1, records=n, record_counts=counts) for each, n in read.items()]
    return work.shards_by_task(progress).shards


def test_a_small_night_is_one_task():
    assert shards_by_task({0: 10, 1: 10, 2: 10}, {3: 10}) == ((0, 1, 2, 3),)


def test_a_shards_weight_counts_the_rows_of_its_state_and_the_records_read():
    large = RECORDS_OF_A_TASK
    assert shards_by_task({0: large, 1: large, 2: 10}, {0: large, 2: 2 * large}) == ((2,), (0,), (1,))
    assert len(shards_by_task({}, {0: 10, 1: 10}, of_groups=large // 100)) == 2
    # No more than twice as many as can run at the same time.
    assert len(shards_by_task({}, dict.fromkeys(range(9), large))) == 2 * SLOTS
