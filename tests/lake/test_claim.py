from __future__ import annotations

import itertools
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

import kgroups_spark
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake import last_finished
from kgroups_spark.lake.claim import Claim, ClaimLost, clear_up, remove_unfinished
from kgroups_spark.lake.lake import Fence, Lake
from kgroups_spark.lake.last_finished import HELD_BY_THIS_PROCESS, REBUILD_APP_ID, Owner, process_start, this_host
from kgroups_spark.lake.ledger import AuditRow, Ledger, PartitionProgress, RecordCount
from kgroups_spark.lake.store import AlreadyWritten
from tests.lake.table_rows import rows_of, writer

MOMENT = datetime(2026, 11, 16, 6, 30, 15, 123_000, tzinfo=UTC)


def left_running(lake, owner, ago=timedelta(0)):
    """The claim of a process that did not finish."""
    Ledger(lake).append(AuditRow(1, "running", str(owner), datetime.now(UTC).replace(microsecond=0) - ago))


def ended_process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = process_start(process.pid)
        assert started is not None
        process.communicate(b"\n")
    return Owner(this_host(), process.pid, started, "its-uuid")


def test_numbers_rise_by_one_and_the_last_finished_audit_is_remembered(lake):
    assert Ledger(lake).last_finished() is None
    for expected in (1, 2, 3):
        with Claim.take(lake) as claim:
            assert claim.audit_id == expected
            assert (claim.before and claim.before.audit_id) == (expected - 1 or None)
            assert claim.unfinished == ()
            claim.finish()
    assert Ledger(lake).last_finished().audit_id == 3


def test_a_finished_row_is_read_back_as_written(lake):
    progress = (
        PartitionProgress(
            17, 0, 120, 100, 0, 5000, 20, "AAAAAAAAAAAAAAAAAAAAAQ", 0, None, None, 110, 4, 1 << 31, MOMENT
        ),
        PartitionProgress(18, start_offset=0, end_offset=0),
    )
    with Claim.take(lake) as claim:
        row = claim.finish(
            as_of=MOMENT,
            retention_ms=604_800_000,
            retention_source="default",
            release_version="4.3",
            rules_version=1,
            state_format=2,
            source="segments",
            partitions=progress,
            rows_added={"offset_commits": 99, "quarantine": 1},
            quarantined={"truncated": 1},
            record_counts=(RecordCount(1, 3, 99), RecordCount(1, None, 1)),
            notes=("partition 19 is missing",),
        )
    read = Ledger(lake).last_finished()
    assert read == row
    assert read.software_version == kgroups_spark.__version__
    assert read.progress(17) == progress[0]
    assert read.progress(19) is None


def test_while_an_audit_runs_another_stops_early(lake):
    with Claim.take(lake) as claim:
        with pytest.raises(
            ClaimLost, match=r"audit 1 is running \(process \d+ on .*: wait for it, or end that process"
        ):
            Claim.take(lake, take_over=True)
        claim.check()


def test_delta_refuses_a_number_claimed_at_the_same_moment(lake, monkeypatch):
    ledger_append = Ledger.append

    def slow(self, row):
        monkeypatch.setattr(Ledger, "append", ledger_append)
        left_running(lake, ended_process())
        ledger_append(self, row)

    monkeypatch.setattr(Ledger, "append", slow)
    with pytest.raises(ClaimLost, match=r"another audit of .* has just claimed number 1"):
        Claim.take(lake)
    assert len(Ledger(lake).rows()) == 1


ELSEWHERE = Owner("elsewhere/boot/ns", 4711, "123", "its-uuid")


@pytest.mark.parametrize(
    ("owner", "ago", "refusal"),
    [
        (ended_process, timedelta(0), None),
        (ELSEWHERE, timedelta(hours=12, seconds=1), None),
        (
            ELSEWHERE,
            timedelta(hours=11, minutes=59),
            r"process 4711 on elsewhere, since .* use --take-over; 12 hours after it began",
        ),
        (
            "somebody",
            timedelta(0),
            r"audit 1 is running or was killed \(process \? on somebody, .*use --take-over",
        ),
    ],
    ids=["of an ended process", "after twelve hours", "of another host", "of an unreadable owner"],
)
def test_a_claim_is_taken_over_and_its_number_never_used_again(owner, ago, refusal, lake):
    left_running(lake, owner() if callable(owner) else owner, ago)
    if refusal:
        with pytest.raises(ClaimLost, match=refusal):
            Claim.take(lake)
    with Claim.take(lake, take_over=refusal is not None) as claim:
        assert (claim.audit_id, claim.before, claim.unfinished) == (2, None, (1,))


def fake_row(audit_id, status):
    return AuditRow(audit_id, status, "x", MOMENT)


@pytest.mark.spark
def test_the_newest_rows_are_those_since_the_last_finished_audit(spark, lake):
    ledger = Ledger(lake)
    assert ledger.newest() == []
    for audit_id in (1, 2):
        ledger.append(fake_row(audit_id, "running"))
    assert ledger.newest() == ledger.rows()
    ledger.append(fake_row(2, "finished"))
    for audit_id in (3, 4):
        ledger.append(fake_row(audit_id, "running"))
    newest = [(2, "running"), (2, "finished"), (3, "running"), (4, "running")]
    assert [(row.audit_id, row.status) for row in ledger.newest()] == newest
    # However OPTIMIZE mixes them, and also where Spark reads them.
    spark.sql(f"OPTIMIZE delta.`{lake.table('audits').path}`")
    assert [(row.audit_id, row.status) for row in ledger.newest()] == newest
    ledger.append(fake_row(4, "finished"))
    assert [(row.audit_id, row.status) for row in ledger.newest()] == [(4, "running"), (4, "finished")]
    lake.files_in_reach = False
    assert [(row.audit_id, row.status) for row in ledger.newest()] == [(4, "running"), (4, "finished")]


def test_full_files_of_the_ledger_are_not_rewritten(lake, monkeypatch):
    monkeypatch.setattr("kgroups_spark.lake.ledger.MANY_FILES", 3)
    monkeypatch.setattr("kgroups_spark.lake.ledger.FULL_FILE_ROWS", 4)
    ledger, seen = Ledger(lake), []
    for audit_id in range(1, 19):
        ledger.append(fake_row(audit_id, "finished"))
        seen.append({file.path for file in lake.table("audits").files() if file.stats["numRecords"] >= 4})
    assert all(before <= after for before, after in itertools.pairwise(seen))
    assert [file.stats["numRecords"] for file in lake.table("audits").files()].count(4) == 4
    assert [row.audit_id for row in ledger.rows()] == list(range(1, 19))


@pytest.mark.spark
def test_the_ledger_uses_sparks_writer_where_the_driver_cannot_reach_the_files(spark, lake):
    row = AuditRow(
        1,
        "finished",
        str(Owner.this_process()),
        MOMENT,
        partitions=(PartitionProgress(0, 0, 5),),
        rows_added={"groups": 3},
    )
    lake.files_in_reach = False
    Ledger(lake).append(row)
    with pytest.raises(AlreadyWritten):
        Ledger(lake).append(row)
    assert Ledger(lake).rows() == [row]


def test_the_next_audit_marks_unfinished_ones_as_abandoned(lake):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), Claim.take(lake) as claim:
            clear_up(claim)
            raise ZeroDivisionError
    with Claim.take(lake) as claim:
        clear_up(claim)
        assert claim.unfinished == (1, 2)
        rows = [(row.audit_id, row.status, row.notes) for row in Ledger(lake).rows()]
        assert rows == [
            (1, "running", None),
            (1, "abandoned", ("did not finish: audit 2 took over",)),
            (2, "running", None),
            (2, "abandoned", ("did not finish: audit 3 took over",)),
            (3, "running", None),
        ]
        claim.finish()
    with Claim.take(lake) as claim:
        assert (claim.before.audit_id, claim.unfinished) == (3, ())


def test_an_owner_is_read_back_from_its_text():
    owner = Owner.this_process()
    assert Owner.parse(str(owner)) == owner
    assert owner.host == this_host()
    assert owner.is_alive is False  # it holds no claim
    HELD_BY_THIS_PROCESS.add(owner.uuid)
    assert owner.is_alive
    HELD_BY_THIS_PROCESS.discard(owner.uuid)
    assert owner.is_alive is False
    assert owner._replace(pid=owner.pid + 1_000_000).is_alive is False


@pytest.mark.parametrize("host", ["my laptop/1234/4026531836", " ", "a  b ", "läptop/b o o t/1"])
def test_the_name_of_a_host_may_hold_blanks(host):
    owner = Owner(host, 4711, "123", "its-uuid")
    assert Owner.parse(str(owner)) == owner


@pytest.mark.parametrize("text", ["", "somebody", "host x 1 uuid", "host 1 uuid", "host -1 2 uuid", "host 0 2 uuid"])
def test_nothing_is_known_about_an_owner_with_an_invalid_text(text, monkeypatch):
    monkeypatch.setattr(last_finished, "this_host", lambda: text.split(" ")[0])
    assert Owner.parse(text).is_alive is None


def test_a_hidden_process_is_not_assumed_to_be_gone(monkeypatch):
    """As with hidepid=2: no /proc/<pid>, and signals to another user's process are not permitted."""
    hidden, start = Owner(last_finished.this_host(), 4711, "123", "its-uuid"), last_finished.process_start

    def kill(pid, signal):
        assert (pid, signal) == (4711, 0)
        raise answers.pop()

    monkeypatch.setattr(last_finished.os, "kill", kill)
    monkeypatch.setattr(last_finished, "process_start", lambda pid: None if pid == 4711 else start(pid))
    answers = [PermissionError(), ProcessLookupError()]
    assert hidden.is_alive is False
    assert hidden.is_alive is None


def test_an_ended_process_is_known_to_be_gone():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = Owner(last_finished.this_host(), process.pid, process_start(process.pid) or "", "its-uuid")
        assert owner.is_alive
        assert owner._replace(started="another").is_alive is False
        process.communicate(b"\n")
    assert owner.is_alive is False


def test_a_zombie_is_no_running_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process_start(process.pid) is None
    finally:
        process.wait()


def test_rows_that_another_program_put_in_one_file_are_kept_apart(lake):
    for audit_id in (1, 2, 3):
        writer(lake, audit_id).append_table("offset_commits", rows_of("offset_commits", {"audit_id": audit_id}))
    log = lake.table("offset_commits")
    merged = lake.write("offset_commits", [lake.rows("offset_commits")], 3)
    log.commit(merged, by="OPTIMIZE", transaction=None, remove=lambda file: True, changes_rows=False)
    assert len(log.files()) == 1
    assert remove_unfinished(Fence(lake, 4, lambda: None), 2) == ["offset_commits"]
    assert sorted(lake.rows("offset_commits")["audit_id"].to_pylist()) == [1, 2]


def test_records_that_an_unfinished_audit_resolved_are_unresolved_again(lake):
    rows = [{"audit_id": 1, "log_offset": at, "resolved_by": by} for at, by in ((1, 4), (2, 2))]
    writer(lake, 4, REBUILD_APP_ID).append_table("quarantine", rows_of("quarantine", *rows))
    assert remove_unfinished(Fence(lake, 5, lambda: None), 2) == []
    assert {row["log_offset"]: row["resolved_by"] for row in lake.rows("quarantine").to_pylist()} == {1: None, 2: 2}


def test_an_audit_that_was_given_up_can_no_longer_write_a_table(lake):
    with Claim.take(lake):
        given_up = writer(lake, 1)
    given_up.append_table("group_records", rows_of("group_records", {"audit_id": 1}))
    with Claim.take(lake) as claim:
        assert clear_up(claim) == ["group_records"]
        for write, name in ((given_up.append_table, "offset_commits"), (given_up.replace_table, "groups")):
            with pytest.raises(KgroupsError, match="written by audit 1 or a later one before"):
                write(name, rows_of(name, {"audit_id": 1}))
            assert lake.rows(name).num_rows == 0


# The newest rows of the ledger: an audit opens no older file of it, and no file twice.


def test_the_newest_rows_are_found_without_opening_older_files_or_one_twice(lake, monkeypatch):
    ledger = Ledger(lake)
    for audit_id in (1, 2, 3):
        ledger.append(fake_row(audit_id, "running"))
        ledger.append(fake_row(audit_id, "finished"))
    opened = []
    rows = Lake.rows

    def counting(self, name, version=None, *, files, **choice):
        opened.extend(file.path for file in files)
        return rows(self, name, version, files=files, **choice)

    monkeypatch.setattr(Lake, "rows", counting)
    assert [each.audit_id for each in ledger.newest()] == [3, 3]
    assert len(set(opened)) == 2
    opened.clear()
    assert [each.audit_id for each in ledger.newest()] == [3, 3]
    assert opened == []
    ledger.append(fake_row(4, "running"))
    assert [each.audit_id for each in ledger.newest()] == [3, 3, 4]
    assert len(set(opened)) == 1
