"""How tasks take memory, unless the user has chosen another way."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kgroups_spark.sources.files import CHOSEN_BY, OF_MALLOC, memory_of_workers

TASK = """
import pyarrow as pa
from kgroups_spark.sources.files import with_storage

def task(batches):
    print(pa.default_memory_pool().backend_name)
    yield from batches

list(with_storage(task)(iter([])))
"""


@pytest.mark.parametrize(("chosen", "pool"), [("", "jemalloc"), ("system", "system")])
def test_the_pool_of_a_task(chosen, pool):
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": chosen}
    done = subprocess.run([sys.executable, "-c", TASK], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [pool]


@pytest.mark.parametrize("name", [CHOSEN_BY, *OF_MALLOC])
def test_new_workers_have_these_settings_but_for_the_users_own(monkeypatch, name):
    for each in (CHOSEN_BY, *OF_MALLOC):
        monkeypatch.delenv(each, raising=False)
    ours = memory_of_workers()
    assert ours == {
        f"spark.executorEnv.{each}": str(value) for each, value in {CHOSEN_BY: "jemalloc", **OF_MALLOC}.items()
    }
    monkeypatch.setenv(name, "system")
    assert memory_of_workers() == {each: value for each, value in ours.items() if not each.endswith(name)}
