"""jobs/nightly_audit.py is `kgroups audit` for spark-submit: the same options, the same messages."""

import runpy
from pathlib import Path

import pytest

JOB = Path(__file__).parent.parent.parent / "jobs" / "nightly_audit.py"


def test_the_job_takes_the_options_of_the_command(capsys):
    main = runpy.run_path(str(JOB))["main"]
    assert main(["--lake", "./new", "--segmnts", "."]) == 2
    assert capsys.readouterr().err.startswith("kgroups: unknown option --segmnts; did you mean --segments?")


def test_run_as_a_script_it_exits_with_the_commands_code(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(JOB), "--lake", "./new"])
    with pytest.raises(SystemExit, match=r"^2$"):
        runpy.run_path(str(JOB), run_name="__main__")
    assert "nothing to read: --bootstrap-server HOST:PORT" in capsys.readouterr().err


def test_the_rebuild_is_a_job_too(capsys):
    main = runpy.run_path(str(JOB.with_name("rebuild.py")))["main"]
    assert main(["--lake", "./new"]) == 2
    assert capsys.readouterr().err.startswith("kgroups: no lake at ./new: there is nothing")
