"""Commands and what they print. screens.txt and narrow_screens.txt are of the shipped segments (three weeks of a small
shop's groups, whose story is known), the other files of small lakes. `pytest --regen` writes them again, and a person
reads the difference."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections import Counter
from functools import cache

import pytest

from kgroups_spark.audit.comparison import Comparison, Facts, Side
from kgroups_spark.audit.differences import WITHOUT_LOAD, Difference
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli import compare
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from tests.cli.golden import screen, screens
from tests.cli.group_questions import LAKES, WRITTEN
from tests.cli.written_lake import write_lake
from tests.recorded_state_logs import answers, log_dir

# Screens of any width, and of terminals with 80 columns. Those without a lake's name are of the shipped segments.
SCREENS, NARROW = [*screens("screens"), *screens("written_screens")], screens("narrow_screens")
# Brokers of 4.4 recorded it: dead letters, redeliveries, start offsets, events.
RECORDING = "share-4.4"


@pytest.fixture(scope="module")
def lakes(local, tmp_path_factory):
    """The folder with the lake of that name, which is made without Spark."""

    @cache
    def made(name):
        folder = tmp_path_factory.mktemp("lakes")
        if name in WRITTEN:
            write_lake(folder / "lake", WRITTEN[name]())
        else:
            segments, limit = (log_dir(RECORDING, folder / "log"), 5) if name else (SEGMENTS, None)
            run_audit(local, AuditOptions(str(folder / "lake"), [str(segments)], share_delivery_count_limit=limit))
        return folder

    return made


@pytest.fixture
def run(lakes, capsys, monkeypatch):
    """Runs a command on the lake of that name; returns exit code, stdout and stderr."""

    def on(lake, command):
        monkeypatch.chdir(lakes(lake))
        capsys.readouterr()
        name, *options = shlex.split(command)
        code = main([name, "--lake", "./lake", *options])
        return code, *capsys.readouterr()

    return on


@pytest.mark.parametrize("wanted", [*SCREENS, *NARROW], ids=lambda wanted: f"{wanted.lake}: {wanted.command}")
def test_a_command_prints_its_screen(wanted, run, monkeypatch, pytestconfig):
    if wanted in NARROW:
        width = None if "--wide" in wanted.command else 80
        monkeypatch.setattr("kgroups_spark.cli.output.screen_width", lambda _: width)
    wanted.check(screen(*run(wanted.lake, wanted.command)), pytestconfig)


# Commands on groups of small lakes in memory, and what they print: made_screens.txt.
@pytest.mark.parametrize("wanted", screens("made_screens"), ids=lambda wanted: f"{wanted.lake}: {wanted.command}")
def test_a_command_on_a_small_lake_prints_its_screen(wanted, kgroups, pytestconfig):
    wanted.check(screen(*kgroups(wanted.command, LAKES[wanted.lake]())), pytestconfig)


DAY = 86_400_000


def compared(*differences, b="3.9", retention_b=7 * DAY, **more):
    fields = {"audit_id": 1, "as_of_ms": 1_763_275_281_000, "is_reduced": False, "partitions": 50}
    return Comparison(Side("4.3", 7 * DAY), Side(b, retention_b), **(fields | more), differences=[*differences])


LOAD = Difference("load", 3, None, "load", "loads", "fails at ...")
LOAD_OF_4 = Difference("load", 4, None, "load", "fails at ...", "loads")
FAILING = {"unserved_groups": 42, "unserved_offsets": 310, "failing": {17: "log offset 9: b", 3: "log offset 5: a"}}
ONE, BOTH = Facts(failing={3: "log offset 5: a"}), Facts(failing={3: "log offset 5: a", 4: "log offset 7: b"})
FOUND = {
    "nothing differs": compared(b="4.2"),
    "no partition has records": compared(b="4.2", partitions=0),
    "two retentions": compared(retention_b=DAY),
    "3.9 does not load": compared(
        LOAD,
        Difference("group", 3, "orders", "group", "share, Stable", WITHOUT_LOAD["scala"], why="no load"),
        facts=(Facts(), Facts(**FAILING)),
    ),
    "4.0 does not load what may be compacted": compared(
        LOAD, b="4.0", facts=(Facts(), Facts(**FAILING, compacted_perhaps={3}))
    ),
    "neither loads one, one does not load another": compared(LOAD_OF_4, facts=(BOTH, ONE)),
    "neither loads one": compared(facts=(ONE, ONE)),
    "neither loads any": compared(facts=(BOTH, BOTH), partitions=2),
    "skipped record types": compared(
        facts=(Facts(topic_ids=12), Facts(skipped=Counter({3: 2, 8: 1000, 16: 1, 11: 4, 17: 5})))
    ),
    "everything differs": compared(
        Difference("group", 1, "gone", "group", "share, Stable, members: 1", None),
        Difference("group", 1, "new", "group", None, "classic, Empty, members: 0"),
        Difference("group", 1, "other", "group_type", "consumer, Stable, members: 1", "classic, Empty, members: 0"),
        Difference("group", 1, "epochs", "group_epoch", "1", "0"),
        Difference("group", 1, "epochs", "assignment_epoch", "1", "0"),
        Difference("member", 1, "epochs", "member_epoch", "1", "0", "m"),
        Difference("committed_offset", 1, "g", "committed_offset", "5", "6", topic="t", partition=0),
        Difference("pending_offset", 1, "g", "committed_offset", "5", None, None, 7, "t", 0),
        Difference("offset_expiry", 1, "g", "decision", "keep (a)", "expire (b)", topic="t", partition=0),
        Difference("offset_expiry", 1, "g", "expires_at", None, "2026", topic="t", partition=1),
        Difference("group_expiry", 1, "g", "decision", "keep (a)", "delete (b)"),
    ),
    "an offset, and what follows from it": compared(
        Difference("committed_offset", 1, "g", "committed_offset", "5", None, topic="t", partition=0),
        Difference("offset_expiry", 1, "g", "expires_at", None, "2026", None, None, "t", 0, None, "committed_offset"),
        facts=(Facts(names={"orders"}), Facts()),
    ),
}


@pytest.mark.parametrize("wanted", screens("compare"), ids=lambda wanted: f"{wanted.lake}: {wanted.command}")
def test_a_comparison_prints_its_screen(wanted, monkeypatch, capsys, pytestconfig):
    monkeypatch.setattr(compare, "existing_lake", lambda arguments: "x")
    monkeypatch.setattr(compare, "_compare", lambda arguments, location: FOUND[wanted.lake])
    code = main([*wanted.command.split(), "--lake", "x", "--release-version", "3.9"])
    wanted.check(screen(code, *capsys.readouterr()), pytestconfig)


def test_rows_have_all_columns():
    assert set(Difference._fields) == set(compare.COLUMNS)


def test_a_group_that_rejects_has_its_dead_letters_one_by_one(run):
    """The scenario rejects every third record of one group and none of another."""
    code, out, err = run("of share groups", "dead-letters --fail-if-any --format json")
    found = {}
    for row in map(json.loads, out.splitlines()):
        found.setdefault(row["group_id"], []).extend(range(row["first_offset"], row["last_offset"] + 1))
        assert row["reason"] == "rejected_or_gap"
    assert {group.split("-")[0]: len(offsets) for group, offsets in found.items()} == {"search": 10, "shipping": 6}
    assert (code, err.startswith("16 records of 2 share groups (")) == (4, True)


def test_start_offsets_are_exported_as_brokers_report_them(run):
    _, out, err = run("of share groups", "export-offsets --all-groups")
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
