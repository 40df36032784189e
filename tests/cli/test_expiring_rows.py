"""`kgroups expiring` makes rows from decisions; the decisions themselves are tested in tests/expiry."""

from datetime import UTC, datetime, timedelta

import pytest

from kgroups_spark.commands.expiring import GROUP_COLUMNS, OFFSET_COLUMNS, Asked, expiring_groups, expiring_offsets
from kgroups_spark.tables.current import GROUPS, OFFSET_EXPIRY
from kgroups_spark.times import to_epoch_ms

AS_OF = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
AS_OF_MS = to_epoch_ms(AS_OF)
HOUR = timedelta(hours=1)


def decision(group_id, partition=0, *, expires_at=None, if_empty=None, reason="within_retention"):
    return {
        "offsets_partition": 3,
        "group_id": group_id,
        "topic": "orders",
        "partition": partition,
        "decision": "keep",
        "reason": reason,
        "expires_at": expires_at,
        "expires_at_if_empty": if_empty if if_empty is not None else expires_at,
    }


DUE = decision("due", expires_at=AS_OF - HOUR, reason="retention_passed")
SOON = decision("soon", expires_at=AS_OF + 24 * HOUR)
SOON_TOO = decision("soon", 1, expires_at=AS_OF + 12 * HOUR, reason="before_expire_timestamp")
LATE = decision("late", expires_at=AS_OF + 100 * HOUR)
ACTIVE = decision("active", if_empty=AS_OF + 168 * HOUR, reason="group_active")
ALL = [ACTIVE, LATE, SOON, SOON_TOO, DUE]


def found(until=None, if_empty=False):
    until_ms = None if until is None else to_epoch_ms(until)
    rows = expiring_offsets(ALL, Asked(AS_OF_MS, until_ms=until_ms, if_empty=if_empty))
    return [(row["group_id"], row["partition"], row["expires_in"]) for row in rows]


def test_everything_that_expires_is_listed_soonest_first():
    assert found() == [("due", 0, "now"), ("soon", 1, "12h"), ("soon", 0, "1d"), ("late", 0, "4d 4h")]


@pytest.mark.parametrize(
    ("until", "groups"), [(AS_OF, ["due"]), (AS_OF + 12 * HOUR, ["due", "soon"]), (AS_OF - 2 * HOUR, [])]
)
def test_until_lists_offsets_that_expire_at_or_before_that_moment(until, groups):
    assert [group for group, _, _ in found(until)] == groups


def test_if_empty_uses_the_expiry_of_the_group_without_members():
    assert found(if_empty=True)[-1] == ("active", 0, "7d")


@pytest.mark.parametrize(
    ("if_empty", "reason", "verdict"),
    [(AS_OF + HOUR, "within_retention", "keep"), (AS_OF, "retention_passed", "expire")],
)
def test_if_empty_gives_the_reason_of_the_group_without_members(if_empty, reason, verdict):
    row = decision("active", if_empty=if_empty, reason="group_active")
    [found_row] = expiring_offsets([row], Asked(AS_OF_MS, if_empty=True))
    assert (found_row["expires_at"], found_row["reason"], found_row["decision"]) == (if_empty, reason, verdict)


def test_a_group_is_one_row_with_its_soonest_expiry_and_its_offset_count():
    offsets = expiring_offsets(ALL, Asked(AS_OF_MS))
    rows = [
        (row["group_id"], row["offset_count"], row["reason"], row["expires_at"]) for row in expiring_groups(offsets)
    ]
    assert rows == [
        ("due", 1, "retention_passed", DUE["expires_at"]),
        ("soon", 2, "before_expire_timestamp", SOON_TOO["expires_at"]),
        ("late", 1, "within_retention", LATE["expires_at"]),
    ]


def test_a_group_in_two_partitions_is_two_rows():
    twice = [SOON, SOON | {"offsets_partition": 4}]
    offsets = expiring_offsets(twice, Asked(AS_OF_MS))
    assert [row["offsets_partition"] for row in expiring_groups(offsets)] == [3, 4]


def test_column_names_are_those_of_the_tables():
    own = {"offset_count", "expires_in"}
    contract = {*OFFSET_EXPIRY.names, *GROUPS.names}
    assert {column.name for column in GROUP_COLUMNS} - own <= contract
    assert set(OFFSET_EXPIRY.names) == {c.name for c in OFFSET_COLUMNS} - own - {"group_type", "state"}
