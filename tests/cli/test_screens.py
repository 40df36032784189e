"""Commands on the lake of the shipped segments (three weeks of a small shop's groups, whose story is known), and what
they print: screens.txt and narrow_screens.txt. `pytest --regen` writes it again, and a person reads the difference."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from kgroups_spark.lake.local import Local
from tests.cli.golden import Screen, screen, screens

# Screens of any width, and of terminals with 80 columns.
SCREENS, NARROW = screens("screens"), screens("narrow_screens")


@pytest.fixture(scope="module")
def place(local: Local, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the demo's lake, made without Spark."""
    folder = tmp_path_factory.mktemp("story")
    run_audit(local, AuditOptions(str(folder / "lake"), [str(SEGMENTS)]))
    return folder


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    code = main(["--lake", "./lake", *shlex.split(command)])
    return screen(code, *capsys.readouterr())


@pytest.mark.parametrize("wanted", [*SCREENS, *NARROW], ids=lambda wanted: wanted.command)
def test_a_command_prints_its_screen(
    wanted: Screen,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    monkeypatch.chdir(place)
    if wanted in NARROW:
        width = None if "--wide" in wanted.command else 80
        monkeypatch.setattr("kgroups_spark.cli.output.screen_width", lambda _: width)
    wanted.check(printed(wanted.command, capsys), pytestconfig)


@pytest.mark.spark
def test_an_audit_by_spark_makes_a_lake_with_the_same_screens(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "--lake", "./lake", "--segments", str(SEGMENTS), "--strict"]) == 0
    for wanted in SCREENS:
        assert printed(wanted.command, capsys) == wanted.printed, wanted.command
