"""Commands on the lake of the shipped segments (three weeks of a small shop's groups, whose story is known), and what
they print: screens.txt. `pytest --regen` writes it again, and a person reads the difference."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from kgroups_spark.lake.local import Local

FILE = Path(__file__).parent / "screens.txt"
# A command; then what is printed, up to the next one or a comment. "2> " is stderr, the last line an exit code but 0.
SCREEN = re.compile(r"^\$ kgroups (.*)\n((?:(?![$#] ).*\n)*)", re.MULTILINE)
SCREENS = dict(SCREEN.findall(FILE.read_text()))


@pytest.fixture(scope="module")
def place(local: Local, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the demo's lake, made without Spark."""
    folder = tmp_path_factory.mktemp("story")
    run_audit(local, AuditOptions(str(folder / "lake"), [str(SEGMENTS)]))
    return folder


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    code = main(["--lake", "./lake", *shlex.split(command)])
    out, err = capsys.readouterr()
    lines = [*out.splitlines(), *(f"2> {line}" for line in err.splitlines())]
    return "".join(f"{line}\n" for line in [*lines, *([f"[{code}]"] if code else [])])


@pytest.mark.parametrize("command", SCREENS)
def test_a_command_prints_its_screen(
    command: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    monkeypatch.chdir(place)
    now = printed(command, capsys)
    if pytestconfig.getoption("regen"):
        FILE.write_text(
            FILE.read_text().replace(f"$ kgroups {command}\n{SCREENS[command]}", f"$ kgroups {command}\n{now}")
        )
    else:
        assert now == SCREENS[command]


@pytest.mark.spark
def test_an_audit_by_spark_makes_a_lake_with_the_same_screens(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "--lake", "./lake", "--segments", str(SEGMENTS), "--strict"]) == 0
    for command, screen in SCREENS.items():
        assert printed(command, capsys) == screen, command
