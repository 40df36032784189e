"""Files of this machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kgroups_spark.lake.local import LocalStore
from kgroups_spark.sources import files
from kgroups_spark.sources.files import OF_WORKERS, POOL, memory_of_workers


def test_a_local_file_is_created_once_and_whole(tmp_path):
    path, store = f"file:{tmp_path}/new folder/_delta_log/0.json", LocalStore()
    assert store.write_text(path, "first\n", overwrite=False)
    assert not store.write_text(path, "second\n", overwrite=False)
    assert files.read_text(path) == "first\n"
    assert [entry.name for entry in files.list_folder(f"{tmp_path}/new folder/_delta_log")] == ["0.json"]


@pytest.mark.parametrize("uri", ["/data/a lake", "file:/data/a lake"])
def test_a_local_lake_is_reached_by_path_and_by_hadoops_uri(uri):
    system, path = files.file_system(uri)
    assert (system.type_name, path) == ("local", "/data/a lake")


def test_a_file_given_as_a_folder_is_not_called_missing(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    said = {
        "pipe": "is a pipe or a device, not a folder",
        "file": r"is a file, not a folder \(an archive must be unpacked\)",
        "none": "does not exist",
    }
    for name, what in said.items():
        with pytest.raises(files.FolderNotFound, match=f"^{tmp_path / name} {what}$"):
            files.list_folder(str(tmp_path / name))


# How tasks take memory, unless the user has chosen another way.
TASK = """
import pyarrow as pa
from kgroups_spark.sources.files import with_storage

def task(batches):
    print(pa.default_memory_pool().backend_name)
    yield from batches

list(with_storage(task)(iter([])))
"""


@pytest.mark.parametrize(("chosen", "pool"), [("", "system"), ("jemalloc", "jemalloc")])
def test_the_pool_of_a_task(chosen, pool):
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": chosen}
    done = subprocess.run([sys.executable, "-c", TASK], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [pool]


@pytest.mark.parametrize("in_worker", [True, False])
def test_only_a_worker_of_spark_keeps_its_modules_from_the_collector(in_worker):
    script = TASK.replace("(task)", f"(task, in_worker={in_worker})") + "import gc; print(gc.get_freeze_count() > 0)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == str(in_worker)


@pytest.mark.parametrize("name", OF_WORKERS)
def test_new_workers_have_these_settings_but_for_the_users_own(monkeypatch, name):
    for each in OF_WORKERS:
        monkeypatch.delenv(each, raising=False)
    ours = {f"spark.executorEnv.{each}": value for each, value in {**OF_WORKERS, POOL: "system"}.items()}
    assert memory_of_workers() == ours
    monkeypatch.setenv(name, "the user's")
    assert memory_of_workers() == ours | {f"spark.executorEnv.{name}": "the user's"}
