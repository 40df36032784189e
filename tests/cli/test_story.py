"""The commands on the lake of the shipped segments: three weeks of a small shop's groups, whose story is known.

The answers of Kafka 4.3.1's coordinator classes for these segments are written out here: groups, offsets, pending
offsets, and a clean-up at the end.
"""

import csv
import io
import json

import pytest

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from tests.pages import blocks


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """The lake that `kgroups audit` makes."""
    location = str(tmp_path_factory.mktemp("story") / "lake")
    assert main(["audit", "--lake", location, "--segments", str(SEGMENTS), "--strict"]) == 0
    return location


@pytest.fixture
def kgroups(lake, capsys):
    """Runs a command on the lake; returns exit code, stdout and stderr."""

    def run(line):
        capsys.readouterr()
        code = main(["--lake", lake, *line.split()])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def rows(kgroups):
    """The rows of a command, as JSON gives them."""

    def run(line):
        code, out, _ = kgroups(f"{line} --format json")
        assert code == 0
        return [json.loads(text) for text in out.splitlines()]

    return run


def test_groups_are_those_of_the_coordinator_by_type_and_state(rows):
    counts = {}
    for row in rows("groups"):
        counts[row["group_type"], row["state"]] = counts.get((row["group_type"], row["state"]), 0) + 1
    assert counts == {
        ("classic", "Stable"): 18,
        ("classic", "Empty"): 6,
        ("consumer", "Stable"): 8,
        ("consumer", "Reconciling"): 1,
        ("streams", "Stable"): 1,
        ("share", "Stable"): 1,
    }


def test_state_and_type_choose_groups_ignoring_case(rows):
    assert [row["group_id"] for row in rows("groups --state empty --type GENERIC")] == [
        "cart-backfill",
        "console-consumer-87781",
        "console-consumer-96374",
        "nightly-settlement",
        "one-off-export",
        "orders-etl-v1",
    ]


def test_groups_as_of_a_moment_are_those_that_existed_then(rows):
    before = {row["group_id"]: row["state"] for row in rows("groups --as-of 2026-11-07T18:20")}
    after = {row["group_id"] for row in rows("groups --as-of 2026-11-07T18:30")}
    assert before["customer-360"] == "Empty"  # stopped on October 31st, removed on November 7th at 18:24
    assert set(before) - after == {"customer-360"}


def test_groups_as_of_the_end_are_the_current_ones(rows):
    now = {(row["group_id"], row["state"]) for row in rows("groups")}
    assert {(row["group_id"], row["state"]) for row in rows("groups --as-of 2026-12-01")} == now


def test_offsets_due_now_are_those_that_the_coordinator_removes_at_its_next_check(rows):
    due = [row for row in rows("expiring --offsets --within 0s") if row["decision"] == "expire"]
    assert sorted((row["group_id"], row["topic"], row["partition"]) for row in due) == [
        ("cart-backfill", "searches", 0),
        ("cart-backfill", "searches", 1),
        ("one-off-export", "price-changes", 0),
        ("one-off-export", "price-changes", 1),
    ]


def test_a_longer_retention_keeps_offsets_that_would_expire(rows):
    groups = {row["group_id"]: row for row in rows("expiring --within 0s")}
    assert set(groups) == {"cart-backfill", "one-off-export"}
    assert groups["cart-backfill"]["offset_count"] == 2
    assert rows("expiring --within 0s --retention 14d") == []


def test_if_empty_gives_a_date_to_every_offset(rows):
    assert len(rows("expiring --offsets --if-empty")) > len(rows("expiring --offsets"))


def test_fail_if_any_exits_4(kgroups):
    assert kgroups("expiring --within 0s --fail-if-any")[0] == 4
    assert kgroups("expiring --until 2026-10-01 --fail-if-any")[0] == 0
    assert kgroups("pending --hanging --fail-if-any")[0] == 4
    assert kgroups("pending --hanging --max-transaction-timeout 365d --fail-if-any")[0] == 0


def test_pending_offsets_are_those_of_the_coordinator(rows):
    found = [
        (
            row["group_id"],
            row["producer_id"],
            row["topic"],
            row["partition"],
            row["committed_offset"],
            row["is_hanging"],
        )
        for row in rows("pending")
    ]
    assert found == [
        ("payments-ledger", 4010, "payments", 0, 49746, True),  # left open three days before
        ("billing-engine", 4015, "orders", 0, 50436, False),
        ("billing-engine", 4015, "orders", 1, 60266, False),
        ("billing-engine", 4015, "price-changes", 0, 892560, False),
        ("billing-engine", 4015, "price-changes", 1, 1078921, False),
    ]


def test_hanging_lists_transactions_open_for_longer_than_the_maximum(rows):
    assert {row["producer_id"] for row in rows("pending --hanging")} == {4010}
    assert {row["producer_id"] for row in rows("pending --hanging --max-transaction-timeout 20s")} == {4010, 4015}


def test_the_ledger_counts_the_records_read(rows):
    [audit] = rows("audits")
    assert (audit["status"], audit["source"], audit["as_of"]) == ("finished", "segments", "2026-11-16T06:41:21.650Z")
    assert sum(partition["records"] for partition in audit["partitions"]) == 35_230
    assert audit["quarantined"] == {}


def test_rows_are_on_stdout_and_all_else_on_stderr(kgroups):
    code, out, err = kgroups("groups --type share")
    heading, row = out.splitlines()
    assert code == 0
    assert heading.split()[:4] == ["GROUP", "TYPE", "STATE", "GENERATION"]
    assert row.split()[1:3] == ["share", "Stable"]
    assert "1 of 35 groups (audit 1, as of 2026-11-16 06:41:21 UTC)" in err


def test_csv_has_the_column_names_and_one_line_per_row(kgroups):
    _, out, _ = kgroups("groups --format csv")
    lines = list(csv.DictReader(io.StringIO(out)))
    assert len(lines) == 35
    assert lines[0]["group_id"] == min(line["group_id"] for line in lines)


def test_the_demo_ends_with_a_screen_and_a_second_run_ends_with_the_same(spark, tmp_path, capsys):
    location = str(tmp_path / "demo")
    assert main(["demo", "--lake", location]) == 0
    first = capsys.readouterr().out.splitlines()
    assert first[1] == "__consumer_offsets: 35 groups, 186 committed offsets, 2026-10-26 06:35 to 2026-11-16 06:41 UTC"
    assert any(line.split()[:4] == ["cart-backfill", "classic", "Empty", "2"] and "now" in line for line in first)
    assert any("4010" in line and "payments-ledger" in line and "yes" in line for line in first)
    assert any(line.startswith("  customer-360") and "offset committed after its removal" in line for line in first)
    assert f"  kgroups report --lake {location}" in "\n".join(first)
    in_readme = blocks("README.md")[1].splitlines()
    assert [line for line in in_readme if line not in first] == ["..."] * 3
    assert main(["demo", "--lake", location]) == 0
    second = capsys.readouterr().out.splitlines()
    assert second[2].startswith("audit 2: nothing new to read; ")
    # Moves of offsets are findings of the audit that read them.
    findings = first.index(next(line for line in first if line.lstrip().startswith("SEVERITY")))
    assert second[3:findings] == first[3:findings]
    assert any("offset_rewound" in line for line in first)
    assert not any("offset_rewound" in line for line in second)


def test_a_second_audit_adds_nothing_and_says_so(lake, kgroups, rows):
    before = rows("groups")
    code, out, err = kgroups(f"audit --segments {SEGMENTS}")
    assert (code, out) == (0, "")
    assert "audit 2: no new records" in err
    assert rows("groups") == before


def test_a_log_that_differs_from_the_lakes_is_refused_with_one_message(kgroups, tmp_path):
    other = tmp_path / "__consumer_offsets-0"
    other.mkdir()
    (other / "00000000000000000000.log").write_bytes(
        (SEGMENTS / "__consumer_offsets-1" / "00000000000000000000.log").read_bytes()
    )
    code, out, err = kgroups(f"audit --segments {tmp_path}")
    assert (code, out) == (2, "")
    assert "--accept-log-change" in err
    assert "Traceback" not in err


def test_an_impossible_lake_location_is_one_message(spark, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["audit", "--lake", f"{tmp_path}/file/lake", "--segments", str(SEGMENTS)]) == 1
    out, err = capsys.readouterr()
    [message] = [line for line in err.splitlines() if line.startswith("kgroups: ")]
    assert out == ""
    assert "Parent path is not a directory" in message
    assert "Traceback" not in err


def test_strict_exits_3_for_quarantined_records(spark, tmp_path, capsys):
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    data = bytearray((SEGMENTS / folder.name / "00000000000000000000.log").read_bytes())
    data[30_000] ^= 0xFF
    (folder / "00000000000000000000.log").write_bytes(data)
    line = ["audit", "--lake", str(tmp_path / "lake"), "--segments", str(tmp_path / "log"), "--strict"]
    assert main(line) == 3
    assert "corrupt_batch" in capsys.readouterr().err
