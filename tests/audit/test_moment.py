"""When an audit judges: by its options, by its log, or by the clocks of the brokers that it reads from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kgroups_spark.audit.work import AuditWork, Moment
from kgroups_spark.cluster import live_log
from kgroups_spark.cluster.requests import ClusterUnreachable
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.ledger import FINISHED, AuditRow
from kgroups_spark.replay.ranges import LogTimes, RangeProgress
from kgroups_spark.sources.partition_log import LeaderLost
from tests.findings.logs import DAY, HOUR, MINUTE
from tests.nights.nights_here import CLOCK_MS

NOW = CLOCK_MS


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def read(newest_ms: int, number: int = 0) -> RangeProgress:
    return RangeProgress(0, number, 0, 1, log_times=LogTimes(newest_ms=newest_ms))


def moment(
    *progress: RangeProgress, as_of: int | None = None, before: AuditRow | None = None, live: bool = False
) -> Moment:
    source = SimpleNamespace(cluster=object(), logs=[]) if live else None
    settings = SimpleNamespace(clock_ms=NOW, as_of=as_of)
    work: Any = SimpleNamespace(lake=None, settings=settings, before=before, source=source, is_live=live)
    return Moment.of(cast(AuditWork, work), progress)


def judged_at(*progress: RangeProgress, **more: Any) -> tuple[int, int, int | None]:
    found = moment(*progress, **more)
    return found.as_of_ms, found.known_until_ms, found.newest_ms


def test_an_audit_of_segments_judges_by_the_newest_time_in_the_log() -> None:
    assert judged_at(read(NOW - 2 * HOUR), read(NOW - HOUR)) == (NOW - HOUR, NOW - HOUR, NOW - HOUR)
    assert judged_at() == (NOW, NOW, None)
    # Records that are read again give no new time.
    assert judged_at(read(NOW - 2 * HOUR), read(NOW - HOUR, -1))[0] == NOW - 2 * HOUR


def test_the_users_moment_counts_and_knowledge_ends_with_the_log() -> None:
    log = read(NOW - DAY)
    assert judged_at(log, as_of=NOW) == (NOW, NOW - DAY, NOW - DAY)
    assert judged_at(log, as_of=NOW - 2 * DAY) == (NOW - 2 * DAY, NOW - 2 * DAY, NOW - DAY)


@pytest.fixture
def appended(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets records come with these times while a live log is read, or makes its cluster not answer."""

    def come(*times: int, error: Exception | None = None) -> None:
        def asked(_cluster: object, _logs: object) -> list[int]:
            if error is not None:
                raise error
            return list(times)

        monkeypatch.setattr(live_log, "times_appended", asked)

    return come


def test_a_live_audit_judges_by_records_that_came_while_it_was_reading(appended: Callable[..., None]) -> None:
    appended(NOW - 8 * MINUTE, NOW - 5 * MINUTE)
    log = read(NOW - 20 * MINUTE)
    assert judged_at(log, live=True)[0] == NOW - 5 * MINUTE
    # Times that no record has and those far ahead of the clock do not count.
    appended(-1, NOW - 5 * MINUTE, NOW + DAY + 1)
    assert judged_at(log, live=True)[0] == NOW - 5 * MINUTE
    appended(-1)
    assert judged_at(log, live=True)[0] == NOW


@pytest.mark.parametrize("error", [ClusterUnreachable("no broker"), LeaderLost("no leader"), KgroupsError("expired")])
def test_without_an_answer_of_the_cluster_this_machines_clock_counts(
    error: Exception, appended: Callable[..., None]
) -> None:
    appended(error=error)
    found = moment(read(NOW - HOUR), live=True)
    assert found.as_of_ms == NOW
    assert "which nothing confirms" in found.notes[0]


def test_a_live_audit_never_judges_earlier_than_the_one_before(appended: Callable[..., None]) -> None:
    appended(NOW - 5 * MINUTE)
    before = AuditRow(1, FINISHED, "host", at(NOW), as_of=at(NOW - MINUTE))
    assert judged_at(read(NOW - HOUR), before=before, live=True)[0] == NOW - MINUTE
    assert judged_at(read(NOW - HOUR), live=True)[0] == NOW - 5 * MINUTE
