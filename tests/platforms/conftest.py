"""The servers, started once for the tests here that one process of pytest runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow.fs import copy_files

from kgroups_spark.lake.lake import Lake
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import Chosen, is_its_turn
from tests.platforms.jars import spark_jars
from tests.platforms.object_store import object_store
from tests.platforms.standalone import standalone_cluster
from tests.recorded_logs import unpacked

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def log(tmp_path_factory):
    """A recorded log of four partitions with transactions."""
    return unpacked(tmp_path_factory.mktemp("corpora"), "transactions-4.3")


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    with object_store(tmp_path_factory.mktemp("store"), ("lakes", "logs", "locked", "versions")) as store:
        yield store


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def begun(local, store, tmp_path_factory):
    """Puts a lake into bucket `lakes` as a creation leaves it that is killed: `every` table is to be made yet, or some
    of them. Spark takes as long for forty tables as for two nights."""

    def begin(lake, *, every):
        made = tmp_path_factory.mktemp("begun") / lake
        Lake.create(local, str(made))
        # The ledger is made last.
        tables = [name for name in TABLES if name != "audits"]
        for name in ("audits", *Chosen("made", every).some(tables, 3)):
            shutil.rmtree(made / name)
        copy_files(str(made), f"lakes/{lake}", destination_filesystem=store.file_system())

    return begin


@pytest.fixture(scope="session")
def local_lake(tmp_path_factory):
    """Where s3_nights.py makes a lake of the same two nights on this machine."""
    return tmp_path_factory.mktemp("s3_nights") / "lake"


@pytest.fixture(
    scope="session",
    params=[
        *([pytest.param(False, id="some tables")] if is_its_turn("a lake on S3") else []),
        pytest.param(True, id="all tables", marks=pytest.mark.soak),
    ],
)
def every(request):
    """Whether all tables are made on S3 and maintained there, or some."""
    return bool(request.param)


@pytest.fixture(scope="session")
def process(log, store, local_lake, every, begun):
    """The process of s3_nights.py when it has ended; the key of bucket `locked` is wrong."""
    spark_jars()
    begun("ours", every=every)
    maintained = Chosen("maintained", every).some(TABLES, 3, always=("offset_commits",))
    (local_lake.parent / "logs").symlink_to(log)
    answer = local_lake.parent / "answer.json"
    arguments = [*map(str, (log, store.folder, local_lake, answer))]
    process = subprocess.run(
        [sys.executable, "-m", "tests.platforms.s3_nights", *arguments],
        input=json.dumps(
            {"settings": {"spark.hadoop.fs.s3a.bucket.locked.secret.key": "wrong"}, "maintained": maintained}
        ),
        env={**os.environ, **store.environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return process


@pytest.fixture(scope="session")
def facts(process, local_lake):
    """The facts that s3_nights.py has found."""
    return json.loads((local_lake.parent / "answer.json").read_text())
