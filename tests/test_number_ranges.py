import pytest

from kgroups_spark.number_ranges import number_ranges


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 1, 5, 7, 8], "0-1, 5, 7-8")],
    ids=["none", "one", "a run", "runs and single ones"],
)
def test_runs_of_numbers_are_reported_by_their_ends(numbers, text):
    assert number_ranges(numbers) == text
