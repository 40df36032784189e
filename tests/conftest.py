"""The one Spark session of a test process: two cores, small, no user interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kgroups_spark.session import spark_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with the session are marked `spark` (`-m "not spark"` leaves them out)."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with Delta; its warehouse is a temporary folder."""
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    session = spark_session(
        "tests",
        {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(warehouse),
        },
    )
    yield session
    session.stop()
