"""A new lake for each test that asks for one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kgroups_spark.lake.lake import Lake


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
