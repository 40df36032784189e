"""The package as a zip, as `spark-submit --py-files kgroups_spark.zip` brings it to a cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import NAMES

ROOT = Path(__file__).parent.parent
# The jobs, and the commands that they are.
JOBS = {
    "expiring_groups": "expiring",
    "maintain": "maintain",
    "nightly_audit": "audit",
    "rebuild": "rebuild",
    "report": "report",
}

# One process runs them all, because each takes seconds to start. Audits and upkeep run without Spark.
PROGRAM = """
import json, runpy, sys

import kgroups_spark
from kgroups_spark.cli.main import main
from kgroups_spark.spark.session import _jars, java_options

lines = json.loads(sys.argv[1])
log4j = java_options("").rpartition("=file://")[2].split()[0]
answers = {
    "package": kgroups_spark.__file__,
    "xml": [open(path).read(4) for path in (log4j, _jars()["spark.jars.ivySettings"])],
}
for line in lines:
    name, *words = line.split()
    run = runpy.run_path(name)["main"] if name.endswith(".py") else lambda words, name=name: main([name, *words])
    answers[line] = run(words)
print(json.dumps(answers))
"""

GROUP = "--group invoice-export --lake ./lake"
# With their exit codes. `demo` makes the lake of the others.
LINES = {
    "demo --lake ./lake --engine local": 0,
    f"{ROOT}/jobs/nightly_audit.py --lake ./lake --segments SEGMENTS --engine local": 0,
    f"{ROOT}/jobs/expiring_groups.py --lake ./lake --within 48h --output expiring.csv": 4,
    f"{ROOT}/jobs/report.py --lake ./lake --output job.html": 0,
    f"{ROOT}/jobs/rebuild.py --lake ./lake --engine local": 0,
    f"{ROOT}/jobs/maintain.py --lake ./lake --engine local": 0,
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
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("zip")
    archive = folder / "kgroups_spark.zip"
    # As docs/spark-and-lakes.md makes it.
    subprocess.run([sys.executable, "-m", "zipfile", "-c", archive, "kgroups_spark"], cwd=ROOT, check=True)
    shutil.copytree(SEGMENTS, folder / "segments")
    lines = [line.replace("SEGMENTS", "segments") for line in LINES]
    # The cache has no jars: Spark would download them with the settings of the zip.
    environment = {**os.environ, "PYTHONPATH": f"{archive}:{ROOT}", "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-P", "-c", PROGRAM, json.dumps(lines)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "said": done.stderr, "folder": folder}


def test_the_process_has_the_package_of_the_zip(answers: dict[str, Any]) -> None:
    assert answers["package"] == str(answers["folder"] / "kgroups_spark.zip" / "kgroups_spark" / "__init__.py")


@pytest.mark.parametrize("line", LINES)
def test_each_command_and_job_answers(line: str, answers: dict[str, Any]) -> None:
    assert answers[line.replace("SEGMENTS", "segments")] == LINES[line], answers["said"]


def test_no_command_and_no_job_is_left_out() -> None:
    assert JOBS.keys() == {path.stem for path in (ROOT / "jobs").glob("*.py")}
    assert {Path(line.split()[0]).stem for line in LINES} == (set(NAMES) - set(JOBS.values())) | JOBS.keys()


def test_spark_gets_files_that_are_on_the_disk(answers: dict[str, Any]) -> None:
    assert answers["xml"] == ["<!--", "<!--"]


def test_no_file_of_the_package_is_opened_by_its_path() -> None:
    named = [path for path in (ROOT / "kgroups_spark").rglob("*.py") if "__file__" in path.read_text()]
    assert named == []
