from argparse import Namespace

from kgroups_spark.commands.groups import COLUMNS, chosen_of
from kgroups_spark.tables.current import GROUPS


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
    assert set(COLUMNS) == {*GROUPS.names, "known"}
