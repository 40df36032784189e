"""An audit that breaks at any commit, and the one after it: the tables are those of a lake that nothing happened to."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pytest

from kgroups_spark.errors import KgroupsError
from kgroups_spark.tables.claim import Claim, ClaimLost, Owner
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.ledger import AuditRow, Ledger
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tables.unfinished import clear_up
from tests.audit.lakes import contents, rows
from tests.crash.commit_points import (
    AFTER,
    BEFORE,
    assert_lake_is_sound,
    at_each_commit,
    audit,
    broken_at,
    commit_points,
    photographs,
    tables_of_now,
)

pytestmark = pytest.mark.spark


HISTORY_AND_STATE = [name for name, table in TABLES.items() if table.kind in ("history", "internal")]


@pytest.fixture(scope="module")
def killed(spark, nights, tmp_path_factory):
    """What a second night by `parts` leaves that is killed before a commit, by commit point, in order. Behind a commit
    it is what it is before the next one."""
    folder = tmp_path_factory.mktemp("killed")
    shutil.copytree(nights.lake, folder / "lake")
    found = photographs(folder / "lake", folder / "copies", lambda: audit(spark, folder / "lake", nights.second))
    assert {table for table, _, _ in found} >= {"audits", "offset_commits", "quarantine", "groups", "offset_expiry"}
    return found


def assert_no_trace(spark, nights, killed, finishing):
    """Readers see the night before, and clearing up leaves it; `finishing`: the writers of the whole nights that come
    after some of the killed ones, spread over all."""
    now, history = tables_of_now(spark, nights.lake), contents(nights.lake, HISTORY_AND_STATE)
    every = len(killed) // len(finishing)
    writers = dict(zip(range(every - 1, len(killed), every), finishing, strict=False))
    for number, (point, copy) in enumerate(killed.items()):
        assert tables_of_now(spark, copy) == now, point
        if number in writers:
            audit(spark, copy, nights.second, writer=writers[number])
            assert_lake_is_sound(copy, nights.expected)
        else:
            clear(spark, copy)
            assert contents(copy, HISTORY_AND_STATE) == history, point


def clear(spark, lake):
    """What an audit does first; a killed one has left it so."""
    opened = Lake.open(spark, str(lake))
    with Claim.take(opened) as claim:
        clear_up(opened, claim)


def test_a_night_killed_before_any_commit_leaves_no_trace(spark, nights, killed):
    assert_no_trace(spark, nights, killed, ["parts"] * 6)


def test_nights_broken_one_after_another_leave_no_trace(spark, nights, killed, tmp_path):
    lake, points = tmp_path / "lake", list(killed)
    shutil.copytree(nights.lake, lake)
    now, history = tables_of_now(spark, lake), contents(lake, HISTORY_AND_STATE)
    first_of_its_own = points[1]

    def cleared_up(point, when):
        # Each audit clears up after the one before it: from there on all is as if that had never been.
        if (point, when) == (first_of_its_own, BEFORE):
            assert contents(lake, HISTORY_AND_STATE) == history

    for number, point in enumerate(points[2:-1:4]):
        when = (BEFORE, AFTER)[number % 2]
        broken_at(point, when, lambda: audit(spark, lake, nights.second), cleared_up)
        assert tables_of_now(spark, lake) == now, (point, when)
    # After the very last commit the audit has finished, known or not.
    broken_at(points[-1], AFTER, lambda: audit(spark, lake, nights.second), cleared_up)
    assert_lake_is_sound(lake, nights.expected)


def test_a_night_by_sparks_writer_killed_before_any_commit_leaves_no_trace(spark, nights, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    killed = photographs(lake, tmp_path / "killed", lambda: audit(spark, lake, nights.second, writer="spark"))
    assert_lake_is_sound(lake, nights.expected)
    # Where history is half written the next night may be by Spark's writer, too.
    assert_no_trace(spark, nights, killed, ["spark", "parts", "parts", "parts"])


def test_a_lake_whose_making_breaks_is_made_all_the_same(spark, nights, tmp_path):
    lake = tmp_path / "lake"
    points = commit_points(lambda: Lake.create(spark, str(tmp_path / "undisturbed")))
    assert [point[1] for point in points] == ["create"] * len(TABLES)
    for number, point in enumerate([*points[::4], points[-1]]):
        when = AFTER if number % 2 and point != points[-1] else BEFORE
        broken_at(point, when, lambda: audit(spark, lake, nights.first))
        assert not Lake(spark, str(lake)).exists()
    audit(spark, lake, nights.first)
    assert_lake_is_sound(lake, contents(nights.lake))
    assert sorted(row["status"] for row in rows(lake, "audits")) == ["finished", "running"]


def test_the_first_audit_killed_before_any_commit_leaves_no_trace(spark, nights, tmp_path):
    lake = tmp_path / "lake"
    Lake.create(spark, str(lake))
    killed = photographs(lake, tmp_path / "killed", lambda: audit(spark, lake, nights.first))
    for number, (point, copy) in enumerate(killed.items()):
        assert not any(tables_of_now(spark, copy).values()), point
        if number % 8 == 7:
            audit(spark, copy, nights.first)
            assert_lake_is_sound(copy, contents(nights.lake))
            assert [row["status"] for row in rows(copy, "audits")].count("finished") == 1
        else:
            clear(spark, copy)
            assert not any(contents(copy, HISTORY_AND_STATE).values()), point


def test_clearing_up_broken_at_any_commit_leaves_no_trace(spark, nights, killed, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    history = contents(lake, HISTORY_AND_STATE)
    broken_at(("audits", "append", 1), BEFORE, lambda: audit(spark, lake, nights.second))
    shutil.copytree(lake, tmp_path / "recorded")
    _, *points = commit_points(lambda: clear(spark, tmp_path / "recorded"))
    shutting_out = [point for point in points if point[1] == "shut out"]
    deleting = [point for point in points if point[1] == "delete"]
    assert len(shutting_out) > 5 and len(deleting) > 5
    # All tables are shut out of in the same way, and again by each that clears up; rows go from all in the same way.
    for number, point in enumerate([shutting_out[0], shutting_out[-1], *deleting[:-1:4], deleting[-1]]):
        broken_at(point, (BEFORE, AFTER)[number % 2], lambda: clear(spark, lake))
    clear(spark, lake)
    assert contents(lake, HISTORY_AND_STATE) == history


def test_what_a_killed_audit_made_of_the_tables_of_now_goes_even_if_nothing_is_new(spark, nights, tmp_path):
    """The segments of the killed audit may not be given again."""
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    broken_at(("audits", "append", 1), BEFORE, lambda: audit(spark, lake, nights.second))
    assert {row["audit_id"] for row in rows(lake, "committed_offsets")} == {2}
    audit(spark, lake, nights.first)
    assert contents(lake) == contents(nights.lake)


def test_a_claim_that_is_lost_in_the_middle_stops_the_audit_before_its_next_commit(spark, nights, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    seen = []

    def take_over(point, when):
        seen.append((point, when))
        if (point, when) == (("groups", "replace", 0), AFTER):
            elsewhere = Owner("elsewhere", 4711, "123", "its-uuid")
            Ledger(Lake.open(spark, str(lake))).append(AuditRow(3, "running", str(elsewhere), datetime.now(UTC)))

    stops = r"audit 2 stops: audit 3 \(process 4711 on elsewhere, since .*\) has claimed the lake since"
    with pytest.raises(ClaimLost, match=stops), at_each_commit(take_over):
        audit(spark, lake, nights.second)
    # Nothing but the other's claim came after.
    assert seen[-2:] == [(("audits", "append", 1), BEFORE), (("audits", "append", 1), AFTER)]
    with pytest.raises(ClaimLost, match="say --take-over; after 6 hours"):
        audit(spark, lake, nights.second)
    audit(spark, lake, nights.second, take_over=True)
    assert_lake_is_sound(lake, nights.expected)


@pytest.mark.parametrize("writer", ["parts", "spark"])
def test_an_audit_that_is_taken_over_between_its_look_at_the_claim_and_its_commit_writes_nothing(
    spark, nights, tmp_path, monkeypatch, writer
):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)

    def take_over(point, when):
        if (point, when) == (("group_versions", "append", 0), BEFORE):
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr("kgroups_spark.tables.claim.this_host", lambda: "elsewhere")
                opened = Lake.open(spark, str(lake))
                with Claim.take(opened, take_over=True) as claim:
                    clear_up(opened, claim)

    refused = "table group_versions was written by audit 2 or a later one before"
    with pytest.raises(KgroupsError, match=refused), at_each_commit(take_over):
        audit(spark, lake, nights.second, writer=writer)
    assert {row["audit_id"] for row in rows(lake, "group_versions")} == {1}
    audit(spark, lake, nights.second, take_over=True)
    assert_lake_is_sound(lake, nights.expected)
