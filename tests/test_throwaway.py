"""Which groups are taken for groups of one run each, and how they are named."""

from __future__ import annotations

import uuid

import pytest

from kgroups_spark.words import pattern, throwaway_groups

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
    assert throwaway_groups((name, False) for name in names) == {
        "<uuid>": sorted(UUIDS),
        "job-<number>": sorted(counted),
    }


def test_a_run_that_goes_on_is_not_one_of_those_without_members() -> None:
    groups = [*((name, False) for name in UUIDS), (str(uuid.UUID(int=99)), True)]
    assert throwaway_groups(groups) == {"<uuid>": sorted(UUIDS)}


@pytest.mark.parametrize(
    "groups",
    [
        [(name, False) for name in UUIDS[1:]],
        [(name, True) for name in UUIDS],
        [(f"shard-{number}", False) for number in range(100)],
        [(f"store-{number}", number % 2 == 0) for number in range(1000, 1040)],
        [(f"{number}-report-{'abcdefghij'[number]}", False) for number in range(10)],
        [(UUIDS[0], False)] * 10,
    ],
    ids=["nine", "in_use", "numbered_by_hand", "half_in_use", "different_words", "one_in_ten_partitions"],
)
def test_other_groups_are_not_taken_for_them(groups: list[tuple[str, bool]]) -> None:
    assert throwaway_groups(groups) == {}
