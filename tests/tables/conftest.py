"""A new lake for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kgroups_spark.lake.lake import Lake
from tests.small_lakes import STORE_OF_KERNEL


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    # A blank and a letter outside ASCII: paths go through four libraries.
    return Lake.create(spark, str(tmp_path / "our läke"))


@pytest.fixture
def deltas_own_store(spark: SparkSession) -> Iterator[None]:
    """Kernel commits by the log store that the command line has: for commits at once (tests/small_lakes.py)."""
    hadoop: Any = spark._jsc.hadoopConfiguration()
    before = hadoop.get(STORE_OF_KERNEL)
    hadoop.unset(STORE_OF_KERNEL)
    yield
    hadoop.set(STORE_OF_KERNEL, before)
