"""describe, history and export-offsets answer the same with Spark as with DuckDB: for a removed group and a share
group, now and as of a moment. (tests/cli/test_engines.py has the readers themselves.)"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kgroups_spark.words import to_datetime
from tests.chosen import one_of
from tests.cli.group_questions import Said, gone_piece_by_piece, share_group
from tests.cli.story_reader import ArrowReader, SparkArrowReader

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def readers(spark: SparkSession) -> tuple[ArrowReader, SparkArrowReader]:
    gone, shared = gone_piece_by_piece(), share_group("s")
    both = {
        name: pa.concat_tables([each.tables[name] for each in (gone, shared) if name in each.tables])
        for name in gone.tables | shared.tables
    }
    by_duckdb = ArrowReader(both, to_datetime(10_000), partitions=shared.tables["audits"]["partitions"][0].as_py())
    return by_duckdb, SparkArrowReader(spark, by_duckdb)


@pytest.mark.parametrize(
    "line",
    one_of(
        "describe --group g --format json",
        f"describe --group g --as-of {10**12} --members --format json",
        f"describe --group g --as-of {10**12 + 1500} --format json",
        f"history --group g --since {10**12} --topic t:0,1 --topic dead --format json",
        "history --group g --commits --limit 4 --format json",
        f"export-offsets --group g --as-of {10**12 + 2500}",
        "describe --group gg",
        "describe --group s",
        f"describe --group s --as-of {10**12 + 5000}",
    ),
)
def test_both_engines_give_the_same_answers(
    readers: tuple[ArrowReader, SparkArrowReader], kgroups: Callable[..., Said], line: str
) -> None:
    one, other = (kgroups(line, reader) for reader in readers)
    assert one == other
    assert one[1] or one[0] == 1 or "--members" in line
