"""An audit that breaks at any commit, and the one after it: the tables are those of a lake that nothing happened to."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import pytest

from kgroups_spark.lake.claim import Claim, ClaimLost, clear_up
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import Owner
from kgroups_spark.lake.ledger import AuditRow, Ledger
from kgroups_spark.tables.schemas import TABLES
from tests.crash.commit_points import (
    AFTER,
    BEFORE,
    assert_lake_is_sound,
    at_each_commit,
    audit,
    broken_at,
    commit_points,
    current_tables,
    photographs,
)
from tests.nights.lakes import contents, rows
from tests.recorded_logs import unpacked

pytestmark = pytest.mark.usefixtures("findings_not_sought")
HISTORY_AND_STATE = [name for name, table in TABLES.items() if table.kind in ("history", "internal")]


@pytest.fixture(scope="module")
def killed(session, nights, tmp_path_factory):
    """The lakes that a night leaves if it is killed before a commit, by commit point, in order. The lake after a commit
    is the one before the next commit."""
    folder = tmp_path_factory.mktemp("killed")
    lake = Path(shutil.copytree(nights.lake, folder / "lake"))
    found = photographs(lake, folder / "copies", lambda: audit(session, lake, nights.second))
    assert_lake_is_sound(lake, nights.expected)
    assert {table for table, _, _ in found} >= {"audits", "offset_commits", "quarantine", "groups", "offset_expiry"}
    return found


def copied(lake, folder):
    """The lake, to go on with."""
    return Path(shutil.copytree(lake, folder / lake.name))


def clear(session, lake):
    """Claims the lake and clears up, as an audit does first, and stops there, as a killed one does."""
    opened = Lake.open(session, str(lake))
    with Claim.take(opened) as claim:
        clear_up(claim)


def test_readers_of_a_night_killed_before_any_commit_see_the_night_before(session, nights, killed, chosen):
    now = current_tables(session, nights.lake)
    for point in chosen.some(killed, 6):
        assert current_tables(session, killed[point]) == now, point


def test_clearing_up_after_a_night_killed_before_any_commit_leaves_no_trace(session, nights, killed, chosen, tmp_path):
    history = contents(nights.lake, HISTORY_AND_STATE)
    for point in chosen.some(killed, 1):
        lake = copied(killed[point], tmp_path)
        clear(session, lake)
        assert contents(lake, HISTORY_AND_STATE) == history, point


def test_the_night_after_one_killed_before_any_commit_is_as_if_nothing_had_happened(
    session, nights, killed, chosen, tmp_path
):
    for point in chosen.some(killed, 1):
        lake = copied(killed[point], tmp_path)
        audit(session, lake, nights.second)
        assert_lake_is_sound(lake, nights.expected)


def test_a_lake_whose_creation_breaks_is_created_by_the_next_audit(session, nights, chosen, tmp_path):
    lake = tmp_path / "lake"
    points = commit_points(lambda: Lake.create(session, str(tmp_path / "undisturbed")))
    assert [point[1] for point in points] == ["create"] * len(TABLES)
    for point in chosen.some(points, 1, always=points[-1:]):
        when = BEFORE if point == points[-1] else chosen.one((BEFORE, AFTER))
        broken_at(point, when, lambda: audit(session, lake, nights.first))
        assert not Lake(session, str(lake)).exists()
    audit(session, lake, nights.first)
    assert_lake_is_sound(lake, contents(nights.lake))
    assert sorted(row["status"] for row in rows(lake, "audits")) == ["finished", "running"]


def test_the_first_audit_killed_before_any_commit_leaves_no_trace(session, nights, chosen, tmp_path):
    lake = tmp_path / "lake"
    Lake.create(session, str(lake))
    killed = photographs(lake, tmp_path / "killed", lambda: audit(session, lake, nights.first))
    for point in chosen.some(killed, 5):
        assert not any(current_tables(session, killed[point]).values()), point
    for point in chosen.some(killed, 1):
        copy = copied(killed[point], tmp_path)
        clear(session, copy)
        assert not any(contents(copy, HISTORY_AND_STATE).values()), point
    for point in chosen.some(killed, 1):
        copy = killed[point]
        audit(session, copy, nights.first)
        assert_lake_is_sound(copy, contents(nights.lake))
        assert [row["status"] for row in rows(copy, "audits")].count("finished") == 1


def test_clearing_up_broken_at_any_commit_leaves_no_trace(session, nights, chosen, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    history = contents(lake, HISTORY_AND_STATE)
    broken_at(("audits", "append", 1), BEFORE, lambda: audit(session, lake, nights.second))
    shutil.copytree(lake, tmp_path / "recorded")
    _, *points = commit_points(lambda: clear(session, tmp_path / "recorded"))
    for operation in ("shut out", "delete"):
        of_this_kind = [point for point in points if point[1] == operation]
        assert len(of_this_kind) > 5
        # The last one is broken with all others done, in a soak as well.
        for point in chosen.some(of_this_kind, 1, always=of_this_kind[-1:]):
            broken_at(point, chosen.one((BEFORE, AFTER)), lambda: clear(session, lake))
    clear(session, lake)
    assert contents(lake, HISTORY_AND_STATE) == history


def test_rows_of_a_killed_audit_go_from_current_tables_even_if_nothing_is_new(session, nights, tmp_path):
    """The next audit may be run without the segments of the killed one."""
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    broken_at(("audits", "append", 1), BEFORE, lambda: audit(session, lake, nights.second))
    assert {row["audit_id"] for row in rows(lake, "committed_offsets")} == {2}
    audit(session, lake, nights.first)
    assert contents(lake) == contents(nights.lake)


def test_a_claim_that_is_lost_in_the_middle_stops_the_audit_before_its_next_commit(session, nights, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    seen = []

    def take_over(point, when):
        seen.append((point, when))
        if (point, when) == (("groups", "replace", 0), AFTER):
            elsewhere = Owner("elsewhere", 4711, "123", "its-uuid")
            Ledger(Lake.open(session, str(lake))).append(AuditRow(3, "running", str(elsewhere), datetime.now(UTC)))

    stops = r"audit 2 stops: audit 3 \(process 4711 on elsewhere, since .*\) has claimed the lake"
    with pytest.raises(ClaimLost, match=stops), at_each_commit(take_over):
        audit(session, lake, nights.second)
    # Nothing but the other's claim came after.
    assert seen[-2:] == [(("audits", "append", 1), BEFORE), (("audits", "append", 1), AFTER)]
    with pytest.raises(ClaimLost, match="use --take-over; 12 hours after it began"):
        audit(session, lake, nights.second)
    audit(session, lake, nights.second, take_over=True)
    assert_lake_is_sound(lake, nights.expected)


@pytest.mark.parametrize("at", ["reading ", "replaying "])
def test_an_audit_that_is_taken_over_while_its_tasks_run_says_so(local, tmp_path, at):
    """The audit that took over has removed the work files of the other one's tasks."""
    log, lake = unpacked(tmp_path, "transactions-4.3"), tmp_path / "lake"
    taken_over: list[int] = []

    def stalls(line):
        if line.startswith(at) and not taken_over:
            with mock.patch("kgroups_spark.lake.last_finished.this_host", lambda: "elsewhere"):
                taken_over.append(audit(local, lake, log, take_over=True).audit.audit_id)

    with pytest.raises(ClaimLost, match=r"audit 1 stops: audit 2 .* has claimed the lake"):
        audit(local, lake, log, progress=stalls)
    assert taken_over == [2]
    assert not list((lake / "_work").iterdir())
