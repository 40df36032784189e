"""A new lake for each test that asks for one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kgroups_spark.lake.lake import Lake
from tests.small_lakes import STORE_OF_KERNEL


@pytest.fixture(scope="session")
def empty_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake to copy: making its tables takes a second."""
    folder = tmp_path_factory.mktemp("empty") / "lake"
    Lake.create(spark, str(folder))
    return folder


@pytest.fixture
def lake(spark: SparkSession, empty_lake: Path, tmp_path: Path) -> Lake:
    # A blank and a letter outside ASCII: paths go through four libraries.
    folder = shutil.copytree(empty_lake, tmp_path / "our läke")
    return Lake.open(spark, str(folder))


@pytest.fixture
def deltas_own_store(spark: SparkSession) -> Iterator[None]:
    """Kernel commits with the log store of the command line, for concurrent commits (tests/small_lakes.py)."""
    hadoop: Any = spark._jsc.hadoopConfiguration()
    before = hadoop.get(STORE_OF_KERNEL)
    hadoop.unset(STORE_OF_KERNEL)
    yield
    hadoop.set(STORE_OF_KERNEL, before)
