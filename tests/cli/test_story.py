"""A lake of the shipped segments that Spark made: the demo, a second audit, other logs. screens.txt has the rest."""

import json

import pytest

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main


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


def test_the_ledger_counts_the_records_read(rows):
    [audit] = rows("audits")
    assert (audit["status"], audit["source"], audit["as_of"]) == ("finished", "segments", "2026-11-16T06:41:21.650Z")
    assert sum(partition["records"] for partition in audit["partitions"]) == 35_715
    assert audit["quarantined"] == {}


def test_the_demo_tells_the_story_and_a_second_run_tells_it_again(spark, tmp_path, capsys):
    location = str(tmp_path / "demo")
    assert main(["demo", "--lake", location, "--engine", "spark"]) == 0
    first = capsys.readouterr().out.splitlines()
    assert first[0].startswith("A small shop: 35 groups, 186 committed offsets, 2026-10-26 06:35 to")
    assert main(["demo", "--lake", location, "--engine", "spark"]) == 0
    assert capsys.readouterr().out.splitlines() == first


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
