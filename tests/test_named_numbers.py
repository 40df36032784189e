"""Words for people: runs of numbers, groups of one run each; and work distributed by weight (words.py)."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.words import by_weight, named_partitions, number_ranges, pattern, throwaway_groups
from tests.chosen import examples


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 1, 5, 7, 8], "0-1, 5, 7-8")],
    ids=["none", "one", "a run", "runs and single ones"],
)
def test_runs_of_numbers_are_reported_by_their_ends(numbers, text):
    assert number_ranges(numbers) == text


def test_partitions_are_named_as_one_or_as_several() -> None:
    assert named_partitions([7]) == "partition 7"
    assert named_partitions([2, 3, 7]) == "partitions 2-3, 7"


UUIDS = [str(uuid.UUID(int=number << 64)) for number in range(1, 11)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (UUIDS[0], "<uuid>"),
        (f"report-{UUIDS[0].upper()}", "report-<uuid>"),
        (f"report{UUIDS[0].replace('-', '')}", "report<uuid>"),
        (f"spark-kafka-source-{UUIDS[0]}--1234567-driver-0", "spark-kafka-source-<uuid>--<number>-driver-<number>"),
        ("console-consumer-40123", "console-consumer-<number>"),
        ("job-7", "job-<number>"),
        ("job1792000000-copy", None),
        ("job-1792000000-copy", "job-<number>-copy"),
        ("4711", "<number>"),
        ("orders-v2-etl", None),
        ("payments", None),
        ("", None),
        ("*", None),
    ],
)
def test_a_name_has_a_pattern_if_a_part_of_it_is_a_uuid_or_a_number(name: str, said: str | None) -> None:
    assert pattern(name) == said


def test_ten_groups_of_one_run_each_belong_together() -> None:
    counted = [f"job-{number}" for number in range(95, 105)]
    names = [*UUIDS, *counted, "payments", "orders-1"]
    assert throwaway_groups(names, ()) == {
        "<uuid>": sorted(UUIDS),
        "job-<number>": sorted(counted),
    }


def test_a_run_that_goes_on_is_not_one_of_those_without_members() -> None:
    assert throwaway_groups(UUIDS, [str(uuid.UUID(int=99))]) == {"<uuid>": sorted(UUIDS)}


@pytest.mark.parametrize(
    ("empty", "in_use"),
    [
        (UUIDS[1:], []),
        ([], UUIDS),
        ([f"shard-{number}" for number in range(100)], []),
        (
            [f"store-{number}" for number in range(1000, 1040, 2)],
            [f"store-{number}" for number in range(1001, 1040, 2)],
        ),
        ([f"{number}-report-{'abcdefghij'[number]}" for number in range(10)], []),
        ([UUIDS[0]] * 10, []),
    ],
    ids=["nine", "in_use", "numbered_by_hand", "half_in_use", "different_words", "one_in_ten_partitions"],
)
def test_other_groups_are_not_taken_for_them(empty: list[str], in_use: list[str]) -> None:
    assert throwaway_groups(empty, in_use) == {}


def of_tasks(weights, tasks):
    return by_weight(weights, weights.__getitem__, tasks)


def test_the_heaviest_item_goes_first_and_each_to_the_lightest_task():
    assert of_tasks({0: 5, 1: 100, 2: 5, 3: 90}, 2) == [[1], [0, 2, 3]]
    assert of_tasks({0: 10, 1: 10, 2: 10, 3: 30}, 2) == [[3], [0, 1, 2]]


def test_items_without_weight_are_spread():
    assert of_tasks(dict.fromkeys(range(4), 0), 2) == [[0, 2], [1, 3]]


def test_there_are_at_most_as_many_tasks_as_items_and_at_least_one():
    assert of_tasks({7: 0}, 4) == [[7]]
    assert of_tasks({7: 0}, 0) == [[7]]
    assert of_tasks({}, 4) == [[]]


@examples(100)
@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 10))
def test_no_task_is_empty_or_a_third_heavier_than_the_average_plus_one_item(weights, tasks):
    found = by_weight(range(len(weights)), weights.__getitem__, tasks)
    assert sorted(item for of_task in found for item in of_task) == list(range(len(weights)))
    assert all(of_task == sorted(of_task) and of_task for of_task in found)
    heaviest = max(sum(weights[item] + 1 for item in of_task) for of_task in found)
    assert heaviest <= 4 / 3 * (sum(weights) + len(weights)) / len(found) + max(weights) + 1
