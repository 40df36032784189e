"""Commands about share groups, on what brokers of 4.4 recorded: dead letters, redeliveries, start offsets, events."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.main import main
from tests.recorded_state_logs import answers, log_dir

Captured = pytest.CaptureFixture[str]
RECORDING = "share-4.4"


@pytest.fixture(scope="module")
def lake(local: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("share")
    segments = str(log_dir(RECORDING, place / "log"))
    run_audit(local, AuditOptions(lake=str(place / "lake"), segments=[segments], share_delivery_count_limit=5))
    return str(place / "lake")


def printed(lake: str, capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([arguments[0], "--lake", lake, *arguments[1:]])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_group_that_rejects_has_its_dead_letters_one_by_one(lake: str, capsys: Captured) -> None:
    """The scenario rejects every third record of one group and none of another."""
    code, out, err = printed(lake, capsys, "dead-letters", "--fail-if-any", "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["group_id"], []).extend(range(row["first_offset"], row["last_offset"] + 1))
    assert {group.split("-")[0]: len(offsets) for group, offsets in found.items()} == {"search": 10, "shipping": 6}
    assert {row["reason"] for row in rows} == {"rejected_or_gap"}
    assert code == 4
    assert err.startswith("16 records of 2 share groups (")
    code, out, _ = printed(lake, capsys, "dead-letters", "--until", "1d", "--fail-if-any", "--format", "json")
    assert (code, out) == (0, "")


def test_redeliveries_are_counted_by_day(lake: str, capsys: Captured) -> None:
    _, out, err = printed(lake, capsys, "dead-letters", "--redeliveries", "--since", "1s", "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["redeliveries"], row["records"], row["delivery_count"]) for row in rows] == [(4, 4, 2)]
    assert err.startswith("4 records of 1 share group delivered again 4 times (")


def test_start_offsets_are_exported_as_brokers_report_them(lake: str, capsys: Captured) -> None:
    _, out, err = printed(lake, capsys, "export-offsets", "--all-groups")
    reported = {
        (group, one["topic"], str(one["partition"]), str(one["start_offset"]))
        for group, offsets in answers()[RECORDING]["share_offsets"].items()
        for one in offsets
        if one.get("start_offset") is not None
    }
    assert {tuple(row) for row in csv.reader(io.StringIO(out))} == reported
    [group] = [group for group, *_ in reported if group.startswith("report-")]
    assert f"kafka-share-groups.sh --bootstrap-server HOST:PORT --group {group} --reset-offsets --topic " in err
    assert "kafka-consumer-groups.sh" not in err
    assert "kafka-share-groups.sh reads no file." in err


def test_start_offsets_of_an_earlier_moment_are_those_before_a_reset(lake: str, capsys: Captured) -> None:
    _, out, _ = printed(lake, capsys, "history", "--all-groups", "--event", "share_offset_reset", "--format", "json")
    reset = next(row for row in map(json.loads, out.splitlines()) if row["offset_before"] is not None)
    before = ["--as-of", reset["log_timestamp"].replace("Z", "") + "Z"]
    _, out, _ = printed(lake, capsys, "export-offsets", "--group", reset["group_id"])
    assert f"{reset['topic']},{reset['partition']},{reset['offset_after']}\n" in out
    exported = printed(lake, capsys, "export-offsets", "--group", reset["group_id"], *before)
    assert exported[0] == 0
    assert f"--to-datetime {reset['log_timestamp'].removesuffix('Z')}" in exported[2]


def test_history_names_state_epochs_and_start_offsets(lake: str, capsys: Captured) -> None:
    _, out, _ = printed(lake, capsys, "history", "--all-groups", "--event", "share_offset_reset", "--wide")
    assert "offset 11, state epoch 1" in out
    assert "offset 4, state epoch 1" in out
    _, out, _ = printed(lake, capsys, "history", "--all-groups", "--event", "share_partition_initialized", "--wide")
    assert " state epoch 2 " in out
