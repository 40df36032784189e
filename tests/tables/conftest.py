"""A new lake for each test that asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kgroups_spark.tables.lake import Lake


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    # A blank and a letter outside ASCII: paths go through four libraries.
    return Lake.create(spark, str(tmp_path / "our läke"))
