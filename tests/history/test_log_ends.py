"""Where the log ended at a moment: its order decides, not its times."""

from datetime import UTC, datetime, timedelta

from kgroups_spark.lake.replaced import Replaced, ReplacedRange
from kgroups_spark.replay.horizons import look_for_ends, reported_first
from kgroups_spark.words import to_epoch_ms
from tests.lake.table_rows import rows_of

START = datetime(2026, 11, 1, tzinfo=UTC)


def hour(number):
    return None if number is None else START + timedelta(hours=number)


def hour_ms(number):
    return to_epoch_ms(hour(number))


def log(rows):
    given = ({"offsets_partition": p, "log_offset": offset, "log_timestamp": hour(at)} for p, offset, at in rows)
    return rows_of("group_records", *given)


def ends(as_of_hour, *tables, believed_until_hour=100, replaced=None):
    look = look_for_ends(hour_ms(as_of_hour), hour_ms(believed_until_hour), replaced or Replaced())
    lines = [line for rows in tables for line in look("group_records", None, [log(rows), log(())])]
    return {number: at for (number,), at in reported_first(lines).items()}


def test_the_log_ends_before_its_first_later_record_in_any_table():
    commits = [(0, 10, 1), (0, 12, 3), (1, 5, 1)]
    group_records = [(0, 11, 2), (1, 6, 4)]
    assert ends(1, commits, group_records) == {0: 11, 1: 6}
    assert ends(2, commits, group_records) == {0: 12, 1: 6}
    assert ends(4, commits, group_records) == {}


def test_a_record_with_an_earlier_time_after_a_later_one_is_not_in_the_log():
    assert ends(2, [(0, 10, 1), (0, 11, 5), (0, 12, 2)]) == {0: 11}


def test_a_record_without_a_time_ends_nothing():
    assert ends(1, [(0, 10, None), (0, 11, 2)]) == {0: 11}


def test_a_record_from_the_future_ends_nothing():
    """Else the log would end there as of every moment."""
    commits = [(0, 10, 1), (0, 11, 101), (0, 12, 2), (0, 13, 3)]
    assert ends(2, commits) == {0: 13}
    assert ends(3, commits) == {}
    assert ends(2, commits, believed_until_hour=101) == {0: 11}


def test_a_replaced_record_ends_nothing():
    assert ends(1, [(0, 10, 2), (1, 4, 2)], replaced=Replaced((ReplacedRange(0, 9, 20, 5),))) == {1: 4}
