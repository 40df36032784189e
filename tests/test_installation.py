"""The installation: pyproject.toml, constraints.txt, and the wheel in an empty environment."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import kgroups_spark
from kgroups_spark import errors
from kgroups_spark.cli import report
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import NAMES
from kgroups_spark.sql import by_duckdb
from tests.chosen import one_of
from tests.cli.written_lake import ledger, write_lake
from tests.lake.table_rows import rows_of

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIP_INSTALL = (sys.executable, "-m", "pip", "install", "--quiet")


def constraints():
    """The version of each package that CI installs."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): number for name, number in pairs}


def requirements():
    """The requirements of the package and of all its extras, without the package itself."""
    texts = [*PROJECT["dependencies"], *(text for extra in PROJECT["optional-dependencies"].values() for text in extra)]
    found = [Requirement(text) for text in texts]
    return [each for each in found if each.name != PROJECT["name"]]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_ci_installs_an_allowed_version_of_each_requirement(requirement):
    number = constraints()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(number)
    assert version(requirement.name) == number


@pytest.mark.parametrize("requirement", [Requirement(text) for text in PROJECT["dependencies"]], ids=str)
def test_the_next_major_version_of_a_dependency_is_not_allowed(requirement):
    number = Version(constraints()[canonicalize_name(requirement.name)])
    assert not requirement.specifier.contains(f"{number.major + 1}.0")


def test_the_page_of_releases_says_which_python_ci_tests():
    (named,) = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)]
    page = (ROOT / "docs" / "releases.md").read_text()
    assert re.findall(r"^\| Python \| ([\d.]+) \|", page, re.MULTILINE) == [named]
    if "CI" in os.environ:
        assert f"{sys.version_info.major}.{sys.version_info.minor}" == named


def test_the_version_is_written_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    assert f"\n## {kgroups_spark.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_each_package_that_commands_ask_for_is_in_the_extra_that_they_name():
    extras = {name: " ".join(texts) for name, texts in PROJECT["optional-dependencies"].items()}
    assert all(name in extras["read"] for name in by_duckdb.PACKAGES)
    assert all(name.replace("_", "-") in extras["report"] for name in report.NEEDED)
    assert f"{PROJECT['name']}[read]" in extras["report"]
    assert f"{PROJECT['name']}[cluster,report]" in extras["local"]


@pytest.mark.parametrize(
    ("is_installed", "folder", "command"),
    [
        (True, ROOT, "pip install 'kgroups-spark[read]'"),
        (False, ROOT, f"pip install '{ROOT}[read]'"),
        (False, Path("/spark/work/kgroups.zip"), "pip install 'kgroups-spark[read]'"),
    ],
    ids=["installed", "a checkout on the path", "sent to a cluster"],
)
def test_a_message_says_how_to_install_an_extra_for_this_kind_of_installation(
    is_installed, folder, command, monkeypatch
):
    def distribution(name):
        if is_installed:
            return name
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", distribution)
    monkeypatch.setattr(errors, "IMPORTED_FROM", folder)
    assert errors.how_to_install("read") == command


def test_one_module_says_how_extras_are_installed():
    hints = [path.name for path in (ROOT / "kgroups_spark").rglob("*.py") if f"{PROJECT['name']}[" in path.read_text()]
    assert hints == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: an earlier build leaves files in the checkout, which would go into this one."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "kgroups_spark", folder / "kgroups_spark", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder)
    run(folder, sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture
def lake(tmp_path):
    """A lake with three groups."""
    groups = rows_of("groups", *({"group_id": name} for name in "abc"))
    return Path(write_lake(tmp_path / "lake", {"audits": ledger({}), "groups": groups}))


READERS = ("duckdb", "deltalake")
READ_ALL = """
import sys, duckdb, deltalake
from kgroups_spark.cli.main import main
from kgroups_spark.sql.by_duckdb import duckdb_views
from kgroups_spark.sql.views import VIEWS
from kgroups_spark.tables.schemas import TABLES
print(duckdb.__version__, deltalake.__version__)
with duckdb_views(sys.argv[1]) as connection:
    for name in (*TABLES, *VIEWS):
        connection.sql(f"SELECT * FROM {name}").fetchall()
for words in ("groups", "expiring", "describe --group a", "metrics", "report --output report.html"):
    assert main([*words.split(), "--lake", sys.argv[1]]) == 0, words
"""


@pytest.mark.processes
@pytest.mark.in_turn("ranges of readers")
@pytest.mark.parametrize("end", one_of("lowest", "newest"))
def test_a_lake_is_read_at_both_ends_of_the_ranges(end, lake, tmp_path):
    """The lowest and the newest DuckDB and deltalake that pip may install."""
    ranges = {each.name: each.specifier for each in requirements()}
    lowest = {name: next(clause.version for clause in ranges[name] if clause.operator == ">=") for name in READERS}
    wanted = [f"{name}=={lowest[name]}.*" if end == "lowest" else f"{name}{ranges[name]}" for name in READERS]
    installed = tmp_path / "installed"
    run(tmp_path, *PIP_INSTALL, "--no-deps", "--target", installed, *wanted)
    where = f"import sys; sys.path[:0] = [{str(installed)!r}, {str(ROOT)!r}]"
    said = run(tmp_path, sys.executable, "-c", f"{where}\n{READ_ALL}", lake).splitlines()[0].split()
    assert [Requirement(text).specifier.contains(number) for text, number in zip(wanted, said, strict=True)] == [
        True
    ] * 2


COUNT_GROUPS = "import sys, kgroups_spark; print(kgroups_spark.open_lake(sys.argv[1]).table('groups').num_rows)"


@pytest.mark.processes
@pytest.mark.in_turn("files of the wheel")
def test_the_wheel_has_all_files_of_the_package_and_no_others(wheel):
    info = f"kgroups_spark-{kgroups_spark.__version__}.dist-info"
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(f"{info}/")}
    assert names == {
        str(path.relative_to(ROOT))
        for path in (ROOT / "kgroups_spark").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    run(wheel.parent, sys.executable, "-m", "twine", "check", "--strict", wheel)
    licences = {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"}
    assert licences <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.soak
def test_a_lake_is_read_from_an_empty_environment_without_java(wheel, lake, tmp_path):
    """Downloads what `kgroups-spark[read]` needs, by the command that the message gives."""
    run(tmp_path, sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    kgroups = python.with_name("kgroups")
    constrained = ("--constraint", ROOT / "constraints.txt")
    run(tmp_path, python, "-m", "pip", "install", "--quiet", *constrained, wheel)
    refused = executed(tmp_path, kgroups, "groups", "--lake", lake)
    hint = re.search(r"pip install '(.*?)'", refused.stderr)
    assert (refused.returncode, hint is not None) == (1, True), refused.stderr
    run(tmp_path, python, "-m", *shlex.split(hint[0] if hint else ""), "--quiet", *constrained)
    installed = json.loads(run(tmp_path, python, "-m", "pip", "list", "--format", "json"))
    assert not {"pyspark", "pandas", "altair"} & {each["name"] for each in installed}

    groups = run(tmp_path, kgroups, "groups", "--lake", lake, "--format", "json").splitlines()
    assert len([json.loads(group) for group in groups]) == 3
    assert "3" in run(tmp_path, kgroups, "sql", "--lake", lake, "SELECT count(*) AS n FROM groups")
    assert run(tmp_path, python, "-c", COUNT_GROUPS, lake).strip() == "3"
    assert "_shtab_kgroups kgroups" in run(tmp_path, kgroups, "completion", "bash")
    assert run(tmp_path, kgroups, "--version").split()[-1] == kgroups_spark.__version__


def run(folder, *command):
    """The output of a command that succeeds."""
    done = executed(folder, *command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def executed(folder, *command):
    """The command's end. It finds no Java and nothing of this checkout; pip's settings are those of the tests."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HOME", "LANG"))}
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=folder, env={**kept, "PATH": ""}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("missing", "command", "extra"),
    [
        ("kafka", ["audit", "--lake", "new", "--bootstrap-server", "localhost:1"], "live"),
        ("prometheus_client", ["metrics", "--lake", "new"], "metrics"),
        ("deltalake", ["groups", "--engine", "duckdb"], "read"),
        ("jinja2", ["report"], "report"),
    ],
)
def test_a_command_says_which_extra_it_needs(missing, command, extra, lake, tmp_path):
    """All of the package's modules that need neither a cluster nor Spark can be imported."""
    hidden = f"sys.modules[{missing!r}] = None"
    code = f"import sys; {hidden}; from kgroups_spark.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = [str(lake) if word == "new" else word for word in command]
    words += [] if "--lake" in words else ["--lake", str(lake)]
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"kgroups-spark[{extra}]'" in done.stderr.splitlines()[-1], done.stderr


# The package as a zip, as `spark-submit --py-files kgroups_spark.zip` brings it to a cluster.


# The jobs, and the commands that they are.
JOBS = {
    "expiring_groups": "expiring",
    "maintain": "maintain",
    "nightly_audit": "audit",
    "rebuild": "rebuild",
    "report": "report",
}

# One process runs them all, because each takes seconds to start. There is no Java, and PySpark is not found, as where
# only the package is installed.
PROGRAM = """
import json, os, runpy, sys
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name in ("pyspark", "py4j") else find(name, *more)
from kgroups_spark.cli.entry import leave_pandas_out
leave_pandas_out()
import kgroups_spark
from kgroups_spark.cli.main import main

answers = {"package": kgroups_spark.__file__}
for line in json.loads(sys.argv[1]):
    name, *words = line.split()
    if name.endswith("nightly_audit.py"):  # it is for spark-submit alone
        answers["loaded"] = sorted({"pandas", "kafka"} & sys.modules.keys())
        PathFinder.find_spec = find
    run = runpy.run_path(name)["main"] if name.endswith(".py") else lambda words, name=name: main([name, *words])
    answers[line] = run(words)
from kgroups_spark.spark.session import _jars, java_options
log4j = java_options("").rpartition("=file://")[2].split()[0]
answers["xml"] = [open(path).read(4) for path in (log4j, _jars()["spark.jars.ivySettings"])]
print(json.dumps(answers), flush=True)
os._exit(0)  # as a command ends: pyarrow's threads may abort a process that waits for them
"""

GROUP = "--group invoice-export --lake ./lake"
# With their exit codes. `demo` makes the lake of the others.
LINES = {
    "demo --lake ./lake --engine local": 0,
    "audit --lake ./lake --segments SEGMENTS --engine local": 0,
    f"{ROOT}/jobs/expiring_groups.py --lake ./lake --within 48h --output expiring.csv": 4,
    f"{ROOT}/jobs/report.py --lake ./lake --output job.html": 0,
    f"{ROOT}/jobs/rebuild.py --lake ./lake --engine local": 0,
    "audits --lake ./lake": 0,
    "groups --lake ./lake --as-of 2026-11-11T02:47": 0,
    f"describe {GROUP}": 0,
    f"history {GROUP}": 0,
    "pending --lake ./lake": 0,
    "findings --lake ./lake": 0,
    "lag --lake ./lake": 1,  # no audit of a live cluster
    "dead-letters --lake ./lake": 0,
    "migration --lake ./lake": 0,
    "cleanup --lake ./lake": 0,
    "metrics --lake ./lake": 0,
    f"export-offsets {GROUP} --as-of 2026-11-11T02:47 --output offsets.csv": 0,
    "compare --lake ./lake --release-version 4.0 --engine local": 0,
    "sql --lake ./lake .tables": 0,
    "dump SEGMENTS/__consumer_offsets-0": 0,
    "completion bash": 0,
    f"{ROOT}/jobs/maintain.py --lake ./lake --engine local --keep 3d": 0,
    "audit --lake ./another --segments SEGMENTS": 1,  # by Spark
    f"{ROOT}/jobs/nightly_audit.py --lake ./lake --segments SEGMENTS --engine local": 0,
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zip")
    archive = folder / "kgroups_spark.zip"
    # As docs/spark-and-lakes.md makes it.
    subprocess.run([sys.executable, "-m", "zipfile", "-c", archive, "kgroups_spark"], cwd=ROOT, check=True)
    shutil.copytree(SEGMENTS, folder / "segments")
    lines = [line.replace("SEGMENTS", "segments") for line in LINES]
    # The cache has no jars: Spark would download them with the settings of the zip.
    environment = {"PATH": "", "PYTHONPATH": f"{archive}:{ROOT}", "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-P", "-c", PROGRAM, json.dumps(lines)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "said": done.stderr, "rows": done.stdout, "folder": folder}


def test_the_process_has_the_package_of_the_zip(answers):
    assert answers["package"] == str(answers["folder"] / "kgroups_spark.zip" / "kgroups_spark" / "__init__.py")


@pytest.mark.parametrize("line", LINES)
def test_each_command_and_job_answers(line, answers):
    assert answers[line.replace("SEGMENTS", "segments")] == LINES[line], answers["said"]


def test_audits_and_upkeep_are_done_without_java_and_without_pyspark(answers):
    assert answers["loaded"] == []
    assert "A small shop: 35 groups, 186 committed offsets" in answers["rows"]
    assert "audit 2: no new record" in answers["said"]
    assert "offset_commits: 28,404 rows removed" in answers["said"]
    assert "PySpark is not installed" in answers["said"]
    assert "Or add --engine local, which needs no Java and no Spark\n" in answers["said"]


def test_no_command_and_no_job_is_left_out():
    assert JOBS.keys() == {path.stem for path in (ROOT / "jobs").glob("*.py")}
    assert {Path(line.split()[0]).stem for line in LINES} >= (set(NAMES) - set(JOBS.values())) | JOBS.keys()


def test_spark_gets_files_that_are_on_the_disk(answers):
    assert answers["xml"] == ["<!--", "<!--"]


def test_no_file_of_the_package_is_opened_by_its_path():
    named = [path for path in (ROOT / "kgroups_spark").rglob("*.py") if "__file__" in path.read_text()]
    assert named == []
