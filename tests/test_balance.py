"""Work is distributed to tasks by its weight."""

from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.words import by_weight


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


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 10))
def test_no_task_is_empty_or_a_third_heavier_than_the_average_plus_one_item(weights, tasks):
    found = by_weight(range(len(weights)), weights.__getitem__, tasks)
    assert sorted(item for of_task in found for item in of_task) == list(range(len(weights)))
    assert all(of_task == sorted(of_task) and of_task for of_task in found)
    heaviest = max(sum(weights[item] + 1 for item in of_task) for of_task in found)
    assert heaviest <= 4 / 3 * (sum(weights) + len(weights)) / len(found) + max(weights) + 1
