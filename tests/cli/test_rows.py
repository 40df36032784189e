"""`kgroups groups`, `pending` and `lag`: which rows, in which order, which columns, and the drawing of a trend."""

from __future__ import annotations

import io
import os
import subprocess

import pytest

from kgroups_spark.audit.maintain import MaintainSummary
from kgroups_spark.audit.options import LEAST_VACUUM_MS
from kgroups_spark.cli.audits import ON_THE_SCREEN, one_row_an_audit
from kgroups_spark.cli.describe import rows_of
from kgroups_spark.cli.expiring import GROUPS_SCREEN, OFFSETS_SCREEN, expires_in
from kgroups_spark.cli.findings import COLUMNS as COLUMNS_OF_FINDINGS
from kgroups_spark.cli.findings import EPILOG
from kgroups_spark.cli.groups import COLUMNS
from kgroups_spark.cli.lag import trend
from kgroups_spark.cli.main import main, parse
from kgroups_spark.cli.pending import COLUMNS as COLUMNS_OF_PENDING
from kgroups_spark.cli.pending import SCREEN
from kgroups_spark.findings.finding import KINDS
from kgroups_spark.lake.last_finished import HELD_BY_THIS_PROCESS, Owner, process_start
from kgroups_spark.sql.reader import GroupReader, _waits, about_waiting
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import parse_duration, to_datetime
from tests.cli.group_questions import FINDINGS, LOOKED, Looked
from tests.cli.story_reader import STORY_END, ArrowReader
from tests.lake.table_rows import rows_of as table_rows
from tests.logs.corpora import ALL, audited
from tests.views.arrow_tables import in_duckdb


def test_json_and_csv_have_the_whole_table():
    assert set(COLUMNS) == {*TABLES["groups"].columns.names, "known"}
    contract = {*TABLES["open_transactions"].columns.names, *TABLES["pending_offsets"].columns.names}
    assert {column.name for column in SCREEN} - contract == {"age"}
    assert set(TABLES["pending_offsets"].columns.names) <= set(COLUMNS_OF_PENDING)


@pytest.mark.parametrize(
    ("lags", "expected"),
    [([], ""), ([0, 0], "▁▁"), ([-5, None, 7], "▁ █"), ([1, 1000, 500], "▂█▅"), ([None], " ")],
)
def test_a_trend_begins_at_zero(lags, expected):
    assert trend(lags) == expected


def ledger_row(audit_id, status, **facts):
    return {
        "audit_id": audit_id,
        "status": status,
        "partitions": None,
        "quarantined": None,
        "notes": None,
        "owner": "x",
    } | facts


FINISHED = ledger_row(
    1,
    "finished",
    partitions=[{"records": 10}, {"records": 99, "topic": "__transaction_state"}, {"records": 5}],
    quarantined={"corrupt_batch": 2, "truncated": 1},
    notes=["partition 7 is missing"],
)


def test_an_audit_is_its_finished_row_or_the_running_one():
    rows = one_row_an_audit([ledger_row(2, "running"), FINISHED, ledger_row(1, "running")], 2)
    assert [(row["audit_id"], row["status"]) for row in rows] == [(1, "finished"), (2, "running")]


def test_an_audit_is_interrupted_only_if_its_process_is_known_to_have_ended():
    ours, ended = Owner.this_process(), subprocess.Popen(["true"])
    here = ours._replace(pid=ended.pid, started=process_start(ended.pid) or "0")
    ended.wait()
    elsewhere = here._replace(host="another/host")
    HELD_BY_THIS_PROCESS.add(ours.uuid)
    owners = [here, elsewhere, ours, "", here]
    rows = [one_row_an_audit([ledger_row(1, "running", owner=str(owner))], 1)[0]["status"] for owner in owners]
    assert rows == ["interrupted", "running", "running", "running", "interrupted"]
    assert one_row_an_audit([ledger_row(1, "running", owner=str(here))], 2)[0]["status"] == "abandoned"


def sums(*rows):
    """The sums and counts that the screen shows instead of each row's lists and maps."""
    with in_duckdb({"audits": table_rows("audits", *rows)}) as connection:
        found = (
            connection.sql(ON_THE_SCREEN.replace(":first", "$first"), params={"first": 0}).to_arrow_table().to_pylist()
        )
    return [{name: row[name] for name in SUMS} for row in found]


SUMS = ("partition_count", "records_read", "quarantine_count", "note_count")


def test_the_screen_sums_and_counts_lists_and_maps():
    nothing_read = ledger_row(3, "finished", partitions=[], quarantined={}, notes=[])
    nothing = dict.fromkeys(SUMS)
    expected = [dict(zip(SUMS, (2, 15, 3, 1), strict=True)), nothing, dict.fromkeys(SUMS, 0)]
    assert sums(FINISHED, ledger_row(2, "running"), nothing_read) == expected


def test_an_unfinished_audit_is_abandoned_once_a_later_one_exists():
    ledger = [ledger_row(1, "running"), ledger_row(2, "abandoned"), ledger_row(2, "running"), ledger_row(3, "running")]
    assert [row["status"] for row in one_row_an_audit(ledger, 3)] == ["abandoned", "abandoned", "running"]
    assert [row["status"] for row in one_row_an_audit(ledger, 4)] == ["abandoned"] * 3


# `kgroups findings`: its rows, their order, its messages and its exit codes.


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def run(capsys, monkeypatch):
    def command(*words, times=1):
        lake = Looked(FINDINGS * times, LOOKED)
        monkeypatch.setattr("kgroups_spark.cli.findings.open_lake", lambda arguments: lake)
        code = main(["findings", "--lake", "./lake", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


@pytest.mark.parametrize("lots", [1, 100], ids=["at the end", "amid the rows"])
def test_a_reader_that_closes_the_pipe_leaves_the_exit_code(run, monkeypatch, lots):
    """As in `kgroups findings --fail-if-any | head`."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        code, _, err = run("--fail-if-any", times=lots)
    assert (code, err.count("\n")) == (4, 1)


def test_a_heading_is_as_wide_as_the_terminal_and_the_closing_line_comes_last(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "48")
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    run("--severity", "error")
    assert screen.getvalue().splitlines() == [
        "error hanging_transaction of producer 7,",
        "__consumer_offsets-9, since",
        "2026-11-16 06:30:00 UTC",
        "    What it is. Why it matters, and what to do.",
        "1 error, 0 warnings, 0 notices (audit 3, as of",
        "  2026-11-16 06:30:00 UTC)",
    ]


def test_help_names_every_finding_and_rows_have_the_whole_table():
    assert TABLES["findings"].schema.names == COLUMNS_OF_FINDINGS
    for name, kind in KINDS.items():
        assert f"  {name} ({kind.severity}): {kind.summary}" in EPILOG.splitlines()


def test_the_time_left_is_in_words():
    hours = (-1, 0, 12, 24, 100)
    assert [expires_in(hour * 3_600_000) for hour in hours] == ["now", "now", "12h", "1d", "4d 4h"]


def test_column_names_are_those_of_the_tables():
    own = {"offset_count", "expires_in"}
    contract = {*TABLES["offset_expiry"].columns.names, *TABLES["groups"].columns.names}
    assert {column.name for column in (*GROUPS_SCREEN, *OFFSETS_SCREEN)} - own <= contract


# `describe --members` counts the partitions of a member as the brokers of its release do, and `describe` names members
# that wait for others.
@pytest.mark.parametrize(("corpus", "revoking"), [("kip848-4.0", 1), ("kip848-4.3", 1), ("kip848-4.4", 1)])
def test_partitions_pending_revocation_count_since_4_3(corpus, revoking):
    answer = ALL[corpus]
    reader = ArrowReader(audited(corpus).tables(), to_datetime(STORY_END), answer["release"])
    names = [name for name, group in answer["groups"].items() if group["group_type"] == "consumer"]
    found, waiting = {}, 0
    for group in GroupReader(reader, None, "members", times_as_text=False).groups(names):
        for row in rows_of(group, "members", answer["release"]):
            if row["member_id"] is not None:
                found[group.group_id, row["member_id"]] = row["partition_count"]
                waiting += bool(row["pending_revocation_partitions"])
                listed = (row["current_assignment"] or "").replace(";", ",").split(",")
                assert len([*filter(None, listed)]) == row["partition_count"]
    said = {
        (name, member_id): len(member["assigned"])
        for name in names
        for member_id, member in answer["groups"][name]["members"].items()
    }
    assert found == said
    assert waiting >= revoking


def test_the_member_that_waits_and_the_one_that_it_waits_for():
    """In this recording one member has been asked to release what another one wants."""
    reader = ArrowReader(audited("kip848-4.3").tables(), to_datetime(1_795_190_529_894), "4.3")
    (line,) = about_waiting(reader, ["ledger-1363b6"])
    assert line == (
        "Group 'ledger-1363b6': 3wwzGuLyTYuqktn_TaOPQA waits for beta.events.1017b3-3, beta.events.1017b3-4, "
        "beta.events.1017b3-5, held by syWrt-5hRPyifOYfOaG-1w, revoking for 1m 1s, out in 3m 59s."
    )
    others = [name for name in ALL["kip848-4.3"]["groups"] if name != "ledger-1363b6"]
    assert about_waiting(reader, others) == []


def test_who_holds_a_partition_decides_what_is_said():
    row = {"group_id": "g", "wanted_by": "b", "held_by": "a", "partitions": ["t-1", "t-2", "t-3", "t-4"]}
    row |= {
        "since": to_datetime(0),
        "is_asked": True,
        "revoking_since": to_datetime(60_000),
        "out_by": to_datetime(360_000),
    }
    waits = "Group 'g': b waits for t-1, t-2, t-3 and 1 more, held by "
    assert _waits(row, 300_000) == f"{waits}a, revoking for 4m, out in 1m."
    assert _waits(row, 360_000) == f"{waits}a, revoking for 5m, should have been out by now."
    assert _waits(row | {"out_by": None}, 300_000) == f"{waits}a, revoking for 4m."
    not_known = row | {"revoking_since": None}
    assert _waits(not_known, 300_000) == f"{waits}a, which has been asked to release it."
    assert _waits(not_known | {"is_asked": False}, 300_000) == f"{waits}a, which has not been asked to release it."
    nobody = row | {"held_by": None}
    assert _waits(nobody, 300_000) == f"{waits}no member: it gets them with its next heartbeat."


# `kgroups maintain` on the command line: what it refuses before Spark is started, and the job for spark-submit.
def test_a_dry_run_says_that_nothing_has_been_done():
    lines = [*MaintainSummary(rows_removed={"findings": 2}, bytes_freed=0, versions_removed=1).lines()]
    assert lines == [
        "nothing was done (--dry-run); a run would do this:",
        "  findings: 2 rows would be removed",
        "  0 B of unneeded files would be deleted",
        "  1 old version would be removed from the tables' logs",
    ]


def test_by_default_maintain_vacuums_after_seven_days_the_least_allowed():
    options = parse(["maintain", "--lake", "./lake"])
    assert (options.optimize, options.keep, options.dry_run) == (True, None, False)
    assert options.vacuum == LEAST_VACUUM_MS == parse_duration("7d")
    assert parse(["maintain", "--lake", "./lake", "--no-optimize"]).optimize is False
