"""What was, from the history tables: the log's order decides, not its times."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from kgroups_spark.history import groups_as_of, log_ends_as_of, oldest_log_timestamp, rewinds
from kgroups_spark.times import to_epoch_ms

START = datetime(2026, 11, 1, tzinfo=UTC)
PLACE = [StructField("offsets_partition", IntegerType()), StructField("log_offset", LongType())]
LOG = StructType([*PLACE, StructField("log_timestamp", TimestampType())])
VERSIONS = StructType(
    [
        *PLACE,
        StructField("group_id", StringType()),
        StructField("state", StringType()),
        StructField("is_removed", BooleanType()),
    ]
)
COMMITS = StructType(
    [
        *LOG,
        StructField("group_id", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("committed_offset", LongType()),
        StructField("producer_id", LongType()),
        StructField("outcome", StringType()),
        StructField("topic_id", StringType()),
    ]
)


def hour(number):
    return None if number is None else START + timedelta(hours=number)


def hour_ms(number):
    return to_epoch_ms(hour(number))


def log(spark, *rows):
    return spark.createDataFrame([(partition, offset, hour(at)) for partition, offset, at in rows], LOG)


def ends(spark, as_of_hour, *tables):
    found = log_ends_as_of([log(spark, *rows) for rows in tables], hour_ms(as_of_hour))
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


def test_groups_are_their_last_versions_before_the_end_without_the_removed(spark):
    versions = spark.createDataFrame(
        [
            (0, 1, "kept", "Empty", False),
            (0, 5, "kept", "Stable", False),
            (0, 9, "kept", "Dead", False),
            (0, 2, "gone", "Empty", False),
            (0, 6, "gone", "Dead", True),
            (0, 7, "later", "Empty", False),
            (1, 100, "elsewhere", "Stable", False),
        ],
        VERSIONS,
    )
    found = groups_as_of(versions, ends_of(spark, {0: 7}))
    assert found.columns == ["offsets_partition", "log_offset", "group_id", "state"]
    assert sorted(map(tuple, found.collect())) == [(0, 5, "kept", "Stable"), (1, 100, "elsewhere", "Stable")]


def ends_of(spark, end_offsets):
    return spark.createDataFrame(list(end_offsets.items()), "offsets_partition int, end_offset long")


def commits(spark, *rows):
    """Rows of one slot: (log_offset, committed_offset) and, where it matters, producer_id, outcome, topic_id."""
    made = [(0, row[0], hour(row[0]), "g", "t", 3, row[1], *(*row[2:], None, None, None)[:3]) for row in rows]
    return spark.createDataFrame(made, COMMITS)


def moves(frame):
    rows = frame.orderBy("log_offset")
    return [tuple(row) for row in rows.select("log_offset", "offset_before", "offset_after").collect()]


def test_a_smaller_offset_later_in_the_log_went_back(spark):
    assert moves(rewinds(commits(spark, (1, 50), (2, 70), (3, 40), (4, 40)))) == [(3, 70, 40)]


def test_only_transactions_that_committed_move_an_offset(spark):
    frame = commits(spark, (1, 50), (2, 20, 7, "aborted"), (3, 30, 7, None), (4, 45, 7, "committed"))
    assert moves(rewinds(frame)) == [(4, 50, 45)]


def test_a_first_commit_after_a_removal_is_compared_with_what_was_removed(spark):
    [row] = rewinds(commits(spark, (1, 50), (2, None, 7, None), (3, None), (4, 10), (5, 60))).collect()
    assert (row.log_offset, row.offset_before, row.offset_after, row.was_removed) == (4, 50, 10, True)


def test_a_topic_that_was_made_again_begins_with_small_offsets(spark):
    frame = commits(spark, (1, 50, None, None, "old"), (2, 60), (3, 10, None, None, "new"), (4, 5, None, None, "new"))
    found = [(row.log_offset, row.was_removed, row.topic_recreated) for row in rewinds(frame).collect()]
    assert sorted(found) == [(3, False, True), (4, False, False)]


def test_slots_are_not_compared_with_each_other(spark):
    frame = commits(spark, (1, 50))
    other = commits(spark, (2, 10)).withColumn("partition", F.lit(4))
    assert moves(rewinds(frame.unionByName(other))) == []


def test_the_oldest_time_is_that_of_any_table_of_the_log(spark):
    frames = [log(spark, (0, 10, 5)), log(spark, (1, 4, 2), (1, 5, None))]
    [row] = oldest_log_timestamp(frames).collect()
    assert to_epoch_ms(row.oldest_log_timestamp.astimezone(UTC)) == hour_ms(2)
