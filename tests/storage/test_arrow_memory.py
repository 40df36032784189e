"""Tasks take Arrow's memory from jemalloc, unless the user has chosen another pool."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kgroups_spark.storage.arrow_memory import CHOSEN_BY, jemalloc_of_workers

TASK = """
import pyarrow as pa
from kgroups_spark.storage.s3 import with_storage

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


@pytest.mark.parametrize(("chosen", "settings"), [("", {f"spark.executorEnv.{CHOSEN_BY}": "jemalloc"}), ("system", {})])
def test_the_pool_of_new_workers(monkeypatch, chosen, settings):
    monkeypatch.setenv(CHOSEN_BY, chosen)
    assert jemalloc_of_workers() == settings
