"""Batches and messages written by Kafka 4.3.1's own builders, with the fields they were built from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroups_spark.records.columns import control_type, control_type_name, coordinator_epoch
from tests.chosen import one_of
from tests.records.rows import read_all

DATA = Path(__file__).parents[1] / "data"
VECTORS = [
    vector
    for vector in json.loads((DATA / "coordinator-vectors.json").read_text())
    if vector["kind"] in ("batch", "legacy")
]
EACH = pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])

T0 = 1700000000000
TWO = [(10, T0, b"k1", b"v1"), (11, T0 + 5, b"k2", None)]
OLD = [(40, T0, b"k1", b"v1"), (41, T0 + 5, b"k2", None)]
RECORDS = {
    "v2 plain none": TWO,
    "v2 plain gzip": TWO,
    "v2 plain lz4": TWO,
    "v2 transactional": [(20, T0, b"k1", b"v1")],
    "COMMIT marker": [(21, T0 + 9, bytes([0, 0, 0, 1]), bytes([0, 0, 0, 0, 0, 11]))],
    "ABORT marker": [(22, T0 + 9, bytes([0, 0, 0, 0]), bytes([0, 0, 0, 0, 0, 11]))],
    "empty retained batch": [],
    "delete horizon set": [(50, T0, b"k1", None), (51, T0 + 5, b"k2", b"v")],
    "magic 0 plain": [(offset, -1, key, value) for offset, _, key, value in OLD],
    "magic 0 gzip wrapper": [(offset, -1, key, value) for offset, _, key, value in OLD],
    "magic 1 plain": OLD,
    "magic 1 gzip wrapper": OLD,
}


@EACH
def test_the_records_are_those_kafka_wrote(vector):
    rows, corrupt, reader = read_all(bytes.fromhex(vector["hex"]))
    assert [(row.offset, row.timestamp, row.key, row.value) for row in rows] == RECORDS[vector["name"]]
    assert (corrupt, reader.stopped) == ([], "end")


@pytest.mark.parametrize(
    ("name", "header"),
    [
        # leader epoch, producer id and epoch, transactional, control, timestamp type, first and last offset
        ("v2 plain none", (-1, -1, -1, False, False, 0, (10, 11))),
        ("v2 transactional", (3, 4000, 7, True, False, 0, (20, 20))),
        ("COMMIT marker", (3, 4000, 8, True, True, 0, (21, 21))),  # T25: one epoch above the data's
        ("ABORT marker", (3, 4000, 8, True, True, 0, (22, 22))),
        ("delete horizon set", (3, -1, -1, False, False, 0, (50, 51))),
        ("magic 0 plain", (-1, -1, -1, False, False, -1, (40, 40))),
        ("magic 1 gzip wrapper", (-1, -1, -1, False, False, 0, (40, 41))),
    ],
)
def test_the_header_is_the_one_kafka_wrote(name, header):
    (data,) = (bytes.fromhex(vector["hex"]) for vector in VECTORS if vector["name"] == name)
    rows, _, _ = read_all(data)
    assert rows[0][5:] == header


@EACH
def test_a_log_cut_at_any_length_ends_quietly_without_records_of_the_cut_batch(vector):
    data = bytes.fromhex(vector["hex"])
    whole = read_all(data)[0]
    for length in range(1, len(data)):
        rows, corrupt, reader = read_all(data[:length])
        assert corrupt == []
        assert rows == [row for row in whole if row in rows]
        assert len(rows) < len(whole) or not whole
        assert (reader.stopped, reader.position < length) in [("partial batch", True), ("zeros", True), ("end", False)]


@EACH
@pytest.mark.parametrize("mask", one_of(0x01, 0x80, 0xFF))
def test_with_any_byte_flipped_no_wrong_key_or_value_comes_out(vector, mask):
    data = bytes.fromhex(vector["hex"])
    known = {(row.key, row.value, row.timestamp) for row in read_all(data)[0]}
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= mask
        rows, _, _ = read_all(bytes(damaged))
        assert {(row.key, row.value, row.timestamp) for row in rows} <= known


@EACH
def test_with_a_covered_byte_flipped_the_batch_is_corrupt(vector):
    data = bytes.fromhex(vector["hex"])
    magic = data[16]
    damaged = bytearray(data)
    damaged[25 if magic == 2 else 18] ^= 0x10
    rows, corrupt, _ = read_all(bytes(damaged))
    assert (corrupt[0].position, corrupt[0].detail[:7]) == (0, "the CRC")
    assert corrupt[0].raw == bytes(damaged[: corrupt[0].size])
    assert all(row.offset > 40 for row in rows)  # only what was in another message


@pytest.mark.parametrize(
    ("key", "number", "name"),
    [("00000000", 0, "ABORT"), ("00000001", 1, "COMMIT"), ("00000005ff", 5, "5"), ("0000ffff", -1, "-1")],
)
def test_the_type_follows_the_version_in_the_key(key, number, name):
    assert control_type(bytes.fromhex(key)) == number
    assert control_type_name(number) == name


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_short_key_has_no_type(key):
    assert control_type(key) is None


@pytest.mark.parametrize(
    ("value", "epoch"), [("000000000007", 7), ("0001ffffffff00", -1), ("0000000000", None), ("", None), (None, None)]
)
def test_the_coordinators_epoch_follows_the_version_in_the_value(value, epoch):
    assert coordinator_epoch(None if value is None else bytes.fromhex(value)) == epoch
