"""`kgroups groups`, `pending` and `lag`: which rows, in which order, which columns, and the drawing of a trend."""

from argparse import Namespace

import pytest

from kgroups_spark.cli.groups import COLUMNS, chosen_of
from kgroups_spark.cli.lag import trend
from kgroups_spark.cli.pending import COLUMNS as COLUMNS_OF_PENDING
from kgroups_spark.cli.pending import SCREEN
from kgroups_spark.tables.schemas import TABLES


def group(group_id, group_type, state, offsets_partition=0):
    return {"group_id": group_id, "group_type": group_type, "state": state, "offsets_partition": offsets_partition}


ROWS = [
    group("b", "consumer", "Empty"),
    group("a", "classic", "Stable", offsets_partition=2),
    group("a", "classic", "Stable", offsets_partition=1),
    group("c", "share", "Empty"),
]


def chosen(states=None, types=None):
    return [(row["group_id"], row["offsets_partition"]) for row in chosen_of(ROWS, Namespace(state=states, type=types))]


def test_all_groups_are_ordered_by_name_then_partition():
    assert chosen() == [("a", 1), ("a", 2), ("b", 0), ("c", 0)]


def test_options_state_and_type_choose_groups():
    assert chosen(states=["Empty"]) == [("b", 0), ("c", 0)]
    assert chosen(types=["classic", "share"]) == [("a", 1), ("a", 2), ("c", 0)]
    assert chosen(states=["Empty"], types=["consumer"]) == [("b", 0)]
    assert chosen(states=["Dead"]) == []


def test_json_and_csv_have_the_whole_table():
    assert set(COLUMNS) == {*TABLES["groups"].columns.names, "known"}
    contract = {*TABLES["open_transactions"].columns.names, *TABLES["pending_offsets"].columns.names}
    assert {column.name for column in SCREEN} - contract == {"age"}
    assert set(TABLES["pending_offsets"].columns.names) <= set(COLUMNS_OF_PENDING)


@pytest.mark.parametrize(
    ("lags", "expected"),
    [([], ""), ([0, 0], "▁▁"), ([-5, None, 7], "▁ █"), ([1, 1000, 500], "▂█▅"), ([None], " ")],
)
def test_a_trend_begins_at_zero(lags, expected):
    assert trend(lags) == expected
