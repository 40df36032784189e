"""The installation: pyproject.toml, constraints.txt, and the wheel in an empty environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import kgroups_spark
from kgroups_spark.commands import report
from kgroups_spark.reading import by_duckdb as duckdb_reader

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LAKES = Path(__file__).parent / "data" / "lakes"


def constraints() -> dict[str, str]:
    """The version of each package that CI installs."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): number for name, number in pairs}


def requirements() -> list[Requirement]:
    """The requirements of the package and of all its extras, without the package itself."""
    texts = [*PROJECT["dependencies"], *(text for extra in PROJECT["optional-dependencies"].values() for text in extra)]
    found = [Requirement(text) for text in texts]
    return [each for each in found if each.name != PROJECT["name"]]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_ci_installs_one_version_that_is_allowed(requirement: Requirement) -> None:
    number = constraints()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(number)
    assert version(requirement.name) == number


@pytest.mark.parametrize("requirement", [Requirement(text) for text in PROJECT["dependencies"]], ids=str)
def test_the_next_major_version_is_not_taken_untried(requirement: Requirement) -> None:
    number = Version(constraints()[canonicalize_name(requirement.name)])
    assert not requirement.specifier.contains(f"{number.major + 1}.0")


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    assert f"\n## {kgroups_spark.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_each_package_that_commands_ask_for_is_in_the_extra_that_they_name() -> None:
    extras = {name: " ".join(texts) for name, texts in PROJECT["optional-dependencies"].items()}
    assert all(name in extras["read"] for name in duckdb_reader.PACKAGES)
    assert all(name.replace("_", "-") in extras["report"] for name in report.NEEDED)
    assert f"{PROJECT['name']}[read]" in extras["report"]
    assert f"{PROJECT['name']}[cluster,report]" in extras["local"]


@pytest.mark.soak
def test_a_lake_is_read_from_an_empty_environment_without_java(tmp_path: Path) -> None:
    """Downloads what `kgroups-spark[read]` needs."""
    run(tmp_path, sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    info = f"kgroups_spark-{kgroups_spark.__version__}.dist-info"
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE", "kgroups_spark/py.typed"} <= set(names)
    assert not [name for name in names if name.split("/")[0] not in ("kgroups_spark", info)]

    run(tmp_path, sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    constrained = ("--constraint", ROOT / "constraints.txt")
    run(tmp_path, python, "-m", "pip", "install", "--quiet", *constrained, f"{wheel}[read]")
    installed = json.loads(run(tmp_path, python, "-m", "pip", "list", "--format", "json"))
    assert not {"pyspark", "pandas", "altair"} & {each["name"] for each in installed}

    with zipfile.ZipFile(LAKES / "layout-3.zip") as archive:
        archive.extractall(tmp_path)
    kgroups = python.with_name("kgroups")
    groups = run(tmp_path, kgroups, "groups", "--lake", tmp_path / "lake", "--format", "json").splitlines()
    assert len([json.loads(group) for group in groups]) == 11
    counted = run(tmp_path, kgroups, "sql", "--lake", tmp_path / "lake", "SELECT count(*) AS n FROM groups")
    assert "11" in counted
    rows = "import kgroups_spark; print(kgroups_spark.open_lake('./lake').table('groups').num_rows)"
    assert run(tmp_path, python, "-c", rows).strip() == "11"
    assert "_shtab_kgroups kgroups" in run(tmp_path, kgroups, "completion", "bash")
    assert run(tmp_path, kgroups, "--version").split()[-1] == kgroups_spark.__version__


def run(folder: Path, *command: object) -> str:
    """The command's output. It finds no Java and nothing of this checkout; pip's settings are those of the tests."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HOME", "LANG"))}
    environment = {**kept, "PATH": ""}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
