"""Where the log ended at a moment: its order decides, not its times."""

from datetime import UTC, datetime, timedelta

from pyspark.sql.types import IntegerType, LongType, StructField, StructType, TimestampType

from kgroups_spark.history.log_ends import log_ends_as_of
from kgroups_spark.times import to_epoch_ms

START = datetime(2026, 11, 1, tzinfo=UTC)
PLACE = [StructField("offsets_partition", IntegerType()), StructField("log_offset", LongType())]
LOG = StructType([*PLACE, StructField("log_timestamp", TimestampType())])


def hour(number):
    return None if number is None else START + timedelta(hours=number)


def hour_ms(number):
    return to_epoch_ms(hour(number))


def log(spark, *rows):
    return spark.createDataFrame([(partition, offset, hour(at)) for partition, offset, at in rows], LOG)


def ends(spark, as_of_hour, *tables, believed_until_hour=100):
    tables = [log(spark, *rows) for rows in tables]
    found = log_ends_as_of(tables, hour_ms(as_of_hour), hour_ms(believed_until_hour))
    return {row.offsets_partition: row.end_offset for row in found.collect()}


def test_the_log_ends_before_its_first_later_record_in_any_table(spark):
    commits = [(0, 10, 1), (0, 12, 3), (1, 5, 1)]
    group_records = [(0, 11, 2), (1, 6, 4)]
    assert ends(spark, 1, commits, group_records) == {0: 11, 1: 6}
    assert ends(spark, 2, commits, group_records) == {0: 12, 1: 6}
    assert ends(spark, 4, commits, group_records) == {}


def test_a_record_with_an_earlier_time_behind_a_later_one_is_not_in_it(spark):
    assert ends(spark, 2, [(0, 10, 1), (0, 11, 5), (0, 12, 2)]) == {0: 11}


def test_a_record_without_a_time_ends_nothing(spark):
    assert ends(spark, 1, [(0, 10, None), (0, 11, 2)]) == {0: 11}


def test_a_record_from_the_future_ends_nothing(spark):
    """Else the log would end there as of every moment."""
    commits = [(0, 10, 1), (0, 11, 101), (0, 12, 2), (0, 13, 3)]
    assert ends(spark, 2, commits) == {0: 13}
    assert ends(spark, 3, commits) == {}
    assert ends(spark, 2, commits, believed_until_hour=101) == {0: 11}
