"""Control records: their type, and the epoch in a marker."""

from __future__ import annotations

import pytest

from kgroups_spark.records.columns import control_type, control_type_name, coordinator_epoch


@pytest.mark.parametrize(
    ("key", "number", "name"),
    [("00000000", 0, "ABORT"), ("00000001", 1, "COMMIT"), ("00000005ff", 5, "5"), ("0000ffff", -1, "-1")],
)
def test_the_type_follows_the_version_in_the_key(key: str, number: int, name: str) -> None:
    assert control_type(bytes.fromhex(key)) == number
    assert control_type_name(number) == name


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_short_key_has_no_type(key: bytes | None) -> None:
    assert control_type(key) is None


@pytest.mark.parametrize(
    ("value", "epoch"), [("000000000007", 7), ("0001ffffffff00", -1), ("0000000000", None), ("", None), (None, None)]
)
def test_the_coordinators_epoch_follows_the_version_in_the_value(value: str | None, epoch: int | None) -> None:
    assert coordinator_epoch(None if value is None else bytes.fromhex(value)) == epoch
