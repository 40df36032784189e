"""Commands about share groups, on what brokers of 4.4 recorded: dead letters, redeliveries, start offsets, events."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.main import main
from tests.cli.golden import Screen, screen, screens
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


@pytest.mark.parametrize("wanted", screens("share_screens"), ids=lambda wanted: wanted.command)
def test_a_command_prints_its_screen(wanted: Screen, lake: str, capsys: Captured, pytestconfig: pytest.Config) -> None:
    wanted.check(screen(*printed(lake, capsys, *wanted.command.split())), pytestconfig)


def test_a_group_that_rejects_has_its_dead_letters_one_by_one(lake: str, capsys: Captured) -> None:
    """The scenario rejects every third record of one group and none of another."""
    code, out, err = printed(lake, capsys, "dead-letters", "--fail-if-any", "--format", "json")
    found: dict[str, list[int]] = {}
    for row in map(json.loads, out.splitlines()):
        found.setdefault(row["group_id"], []).extend(range(row["first_offset"], row["last_offset"] + 1))
        assert row["reason"] == "rejected_or_gap"
    assert {group.split("-")[0]: len(offsets) for group, offsets in found.items()} == {"search": 10, "shipping": 6}
    assert (code, err.startswith("16 records of 2 share groups (")) == (4, True)


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
