import pytest

from kgroups_spark.words import named_partitions, number_ranges


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
