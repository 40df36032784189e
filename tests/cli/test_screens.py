"""Commands on the lake of the shipped segments (three weeks of a small shop's groups, whose story is known), and what
they print: screens.txt and narrow_screens.txt. `pytest --regen` writes it again, and a person reads the difference."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from kgroups_spark.lake.local import Local

# Screens of any width, and of terminals with 80 columns.
FILES = {name: Path(__file__).parent / f"{name}.txt" for name in ("screens", "narrow_screens")}
# A command; then what is printed, up to the next one or a comment. "2> " is stderr, the last line an exit code but 0.
SCREEN = re.compile(r"^\$ kgroups (.*)\n((?:(?![$#] ).*\n)*)", re.MULTILINE)
SCREENS = {name: dict(SCREEN.findall(file.read_text())) for name, file in FILES.items()}


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


@pytest.mark.parametrize(
    ("name", "command"), [(name, command) for name, screens in SCREENS.items() for command in screens]
)
def test_a_command_prints_its_screen(
    name: str,
    command: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    monkeypatch.chdir(place)
    if name == "narrow_screens":
        monkeypatch.setattr("kgroups_spark.cli.output.screen_width", lambda _: None if "--wide" in command else 80)
    now, file, before = printed(command, capsys), FILES[name], SCREENS[name][command]
    if pytestconfig.getoption("regen"):
        file.write_text(file.read_text().replace(f"$ kgroups {command}\n{before}", f"$ kgroups {command}\n{now}"))
    else:
        assert now == before


@pytest.mark.spark
def test_an_audit_by_spark_makes_a_lake_with_the_same_screens(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "--lake", "./lake", "--segments", str(SEGMENTS), "--strict"]) == 0
    for command, screen in SCREENS["screens"].items():
        assert printed(command, capsys) == screen, command
