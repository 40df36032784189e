import uuid
from argparse import Namespace
from datetime import timedelta

from kgroups_spark.cli.groups import COLUMNS, chosen_of
from kgroups_spark.tables.schemas import TABLES
from tests.cli.group_questions import group as group_of
from tests.cli.group_questions import reader_of, second


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


RUNS = [f"report-{uuid.UUID(int=number << 64)}" for number in range(12)]


def many_runs():
    """Groups of one run each, one that is in use, and one without a name."""
    names = [*RUNS, "billing", ""]
    groups = [group_of(n % 3, group_id=name, member_count=int(name == "billing")) for n, name in enumerate(names)]
    slots = [
        {"offsets_partition": n % 3, "group_id": name, "topic": "t", "partition": 0, "expires_at": second(50 - n)}
        for n, name in enumerate(names)
    ]
    return reader_of(groups=groups, offset_expiry=slots)


def test_groups_of_one_run_each_are_one_line(kgroups, rows):
    _, out, err = kgroups("groups", many_runs())
    assert [line.split()[0] for line in out.splitlines()] == ["GROUP", "''", "billing", "report-<uuid>"]
    assert out.splitlines()[3].split()[1:5] == ["(12", "groups)", "classic", "Empty"]
    assert "--all shows them" in err and "14 groups" in err
    _, out, err = kgroups("groups --all", many_runs())
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["''", "billing", *RUNS]
    assert "--all" not in err
    assert len(rows("groups", many_runs())) == 14
    assert "--all" not in kgroups("groups --type share", many_runs())[2]


def test_expiring_offsets_of_groups_of_one_run_each_are_one_line(kgroups, rows):
    _, out, err = kgroups("expiring", many_runs())
    _, *lines = out.splitlines()
    cells = [line.replace(" (12 groups)", "").split()[:4] for line in lines]
    assert cells == [
        [name, "classic", "Empty", str(n)] for name, n in (("''", 1), ("billing", 1), ("report-<uuid>", 12))
    ]
    soonest = second(50) - timedelta(seconds=11)
    assert f"{soonest:%Y-%m-%d %H:%M:%S}" in lines[2]
    assert "14 offsets of 14 groups" in err and "--all shows them" in err
    assert len(kgroups("expiring --all", many_runs())[1].splitlines()) == 15
    assert len(rows("expiring", many_runs())) == 14
    assert len(kgroups("expiring --offsets", many_runs())[1].splitlines()) == 15
