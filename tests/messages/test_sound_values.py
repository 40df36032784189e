"""Values that are found sound are read by the reader of single values, to their last byte."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kgroups_spark.messages.group_records import GroupRecord, GroupRecordDecoder
from kgroups_spark.messages.sound_values import are_sound
from tests.messages.built import record_columns
from tests.messages.test_group_records import SUBSCRIPTION, group_metadata
from tests.messages.test_json_columns import members
from tests.messages.vectors import ALL, KEY_OF_TYPE

KEY = KEY_OF_TYPE[2]
WHOLE = {v["name"]: bytes.fromhex(v["hex"]) for v in ALL if v["kind"] == "value" and v["type"] == 2}
WHOLE = {name: value for name, value in WHOLE.items() if value[1] < 4}
WHOLE |= {"one member": group_metadata("consumer", SUBSCRIPTION, b""), "30 members": members(30)}


def sound(values):
    data = np.frombuffer(b"".join(values) + bytes(32), np.uint8)
    lengths = np.array([len(value) for value in values], np.int64)
    return are_sound(data, np.cumsum(lengths) - lengths, lengths).tolist()


def is_read(value):
    record = GroupRecordDecoder().decode(KEY, value)
    return isinstance(record, GroupRecord) and record.content is not None


@pytest.mark.parametrize("value", WHOLE.values(), ids=WHOLE.keys())
def test_whole_values_are_sound_in_any_company(value):
    assert sound([b"", value, value[:-1], value + b"!", value]) == [False, True, False, False, True]


@pytest.mark.parametrize("value", WHOLE.values(), ids=WHOLE.keys())
def test_no_cut_value_is_sound(value):
    assert not any(sound([value[:length] for length in range(len(value))]))


@pytest.mark.parametrize("seed", range(20))
def test_sound_values_with_wrong_bytes_are_read(seed):
    rng = random.Random(seed)
    changed = []
    for value in rng.choices([*WHOLE.values()], k=50):
        spoiled = bytearray(value)
        for _ in range(rng.randint(1, 3)):
            spoiled[rng.randrange(len(spoiled))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        changed.append(bytes(spoiled))
    found = [value for value, is_sound in zip(changed, sound(changed), strict=True) if is_sound]
    assert found, f"seed {seed}: nothing sound"
    assert [value for value in found if not is_read(value)] == []


def test_a_checked_record_gives_its_value_when_asked():
    value = members(3)
    (checked,) = GroupRecordDecoder().check_rows(record_columns([(KEY, value)]), np.array([0]))
    decoded = GroupRecordDecoder().decode(KEY, value)
    assert isinstance(checked, GroupRecord) and isinstance(decoded, GroupRecord)
    assert (checked.value_version, checked.keeps_raw, checked.value) == (3, False, decoded.value)


def test_what_is_not_sound_is_told_at_once():
    rows = record_columns([(KEY, members(3)[:-1]), (KEY, None), (None, b"")])
    cut, tombstone, no_key = GroupRecordDecoder().check_rows(rows, np.arange(3))
    assert cut.reason == "truncated"
    assert tombstone.is_tombstone
    assert no_key.reason == "null_key"
