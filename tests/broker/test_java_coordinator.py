"""4.3.1, whose coordinator is the new one: groups of all protocols."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.broker.agreement import Agreement
from tests.broker.nights import COPY, LIVE, Played, played
from tests.broker.scenarios import JAVA_COORDINATOR
from tests.protocol.local_spark import LocalSpark

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def nights(spark: SparkSession, local: LocalSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with played({LIVE: spark, COPY: local}, tmp_path_factory.mktemp("nights"), "4.3.1", JAVA_COORDINATOR) as nights:
        yield nights


class TestJavaCoordinator(Agreement):
    pass
