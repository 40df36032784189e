"""The jobs are commands of `kgroups` for spark-submit: the same options, the same messages."""

import json
import runpy
from pathlib import Path

import pytest

from tests.cli.written_lake import AS_OF, ledger, write_lake
from tests.lake.table_rows import rows_of

JOB = Path(__file__).parent.parent.parent / "jobs" / "nightly_audit.py"


def job(name):
    return runpy.run_path(str(JOB.with_name(f"{name}.py")))["main"]


@pytest.fixture
def lake(tmp_path):
    """A lake whose last audit judged as of a week after its offsets were committed: every offset is due."""
    due = {"decision": "expire", "reason": "retention_exceeded", "as_of": AS_OF, "expires_at": AS_OF}
    offsets = [due | {"group_id": group, "topic": "t", "partition": n} for group in "abc" for n in range(2)]
    tables = {"audits": ledger({}), "offset_expiry": rows_of("offset_expiry", *offsets)}
    return write_lake(tmp_path / "lake", tables)


@pytest.mark.parametrize("name", ["expiring_groups", "maintain", "nightly_audit", "rebuild", "report"])
def test_help_names_the_script(name, capsys):
    assert job(name)(["--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: {name}.py [-h] ")
    assert job(name)(["--nosuch"]) == 2
    assert capsys.readouterr().err.endswith(f"(see {name}.py --help)\n")


def test_a_job_run_as_a_script_exits_with_the_commands_code(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(JOB), "--lake", "./new"])
    with pytest.raises(SystemExit, match=r"^2$"):
        runpy.run_path(str(JOB), run_name="__main__")
    assert "nothing to read: --bootstrap-server HOST:PORT" in capsys.readouterr().err


def test_expiring_groups_print_a_table_set_the_exit_code_and_write_a_file(lake, tmp_path, capsys):
    output = tmp_path / "expiring.csv"
    assert job("expiring_groups")(["--lake", lake, "--within", "1h", "--output", str(output)]) == 4
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    header, *rows = [line.split(",") for line in output.read_text().splitlines()]
    stored = [row[header.index("group_id")] for row in rows]
    assert shown == ["GROUP", *stored]
    assert sorted(stored) == ["a", "b", "c"]
    assert "expires_in" not in header


def test_expiring_groups_write_json_lines_or_an_empty_file(lake, tmp_path, capsys):
    output = tmp_path / "expiring.json"
    assert job("expiring_groups")(["--lake", lake, "--offsets", "--output", str(output), "--format", "json"]) == 4
    assert output.read_text() == capsys.readouterr().out
    assert {json.loads(line)["decision"] for line in output.read_text().splitlines()} == {"expire"}
    assert job("expiring_groups")(["--lake", lake, "--until", "2020-01-01", "--output", str(output)]) == 0
    assert output.read_text() == ""


@pytest.mark.parametrize("output", ["x.txt", "no/x.csv"])
def test_an_unusable_output_file_is_refused_before_the_lake_is_opened(output, capsys):
    assert job("expiring_groups")(["--lake", "./no-lake", "--output", output]) == 2
    assert capsys.readouterr().err.startswith(f"kgroups: --output {output}: ")
