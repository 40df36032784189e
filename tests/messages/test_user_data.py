"""User data of assignors as JSON: bytes as Kafka's clients write them, and those that brokers recorded."""

from __future__ import annotations

import json
import struct

import pytest

from kgroups_spark.messages.group_metadata import user_data_json
from tests.views.recorded import tables_of

PREVIOUS = struct.pack(">ih6sii", 1, 6, b"orders", 1, 3)  # orders-3


def of(protocol: str | None, data: bytes | None) -> object:
    text = user_data_json(protocol, data)
    return None if text is None else json.loads(text)


def test_sticky_assignors_remember_partitions_and_a_generation() -> None:
    previous = [{"topic": "orders", "partitions": [3]}]
    assert of("sticky", PREVIOUS + struct.pack(">i", 7)) == {"previousAssignment": previous, "generation": 7}
    assert of("sticky", PREVIOUS) == {"previousAssignment": previous, "generation": -1}
    assert of("cooperative-sticky", struct.pack(">i", 7)) == {"generation": 7}


def test_streams_remembers_its_process_and_tasks() -> None:
    data = struct.pack(">ii16s", 6, 9, bytes(15) + b"\1") + struct.pack(">iiiiii", 1, 0, 2, 1, 1, 3)
    read = of("stream", data + struct.pack(">i2s", 2, b"h:"))
    assert isinstance(read, dict)
    assert (read["version"], read["processId"]) == (6, "AAAAAAAAAAAAAAAAAAAAAQ")
    assert read["prevTasks"] == [{"topicGroupId": 0, "partition": 2}]
    assert read["standbyTasks"] == [{"topicGroupId": 1, "partition": 3}]
    assert (read["userEndPoint"], read["taskOffsetSums"]) == ("aDo=", [])
    sums = struct.pack(">iiiqh", 1, 0, 2, -2, -1)
    newest = struct.pack(">ii16si", 11, 11, bytes(15) + b"\1", 0) + sums + struct.pack(">bii", 1, 0, 0)
    read = of("stream", newest)
    assert isinstance(read, dict)
    [offset_sum] = read["taskOffsetSums"]
    assert (offset_sum["topicGroupId"], offset_sum["partition"], offset_sum["offsetSum"]) == (0, 2, -2)
    assert (read["uniqueField"], read["prevTasks"]) == (1, [])


@pytest.mark.parametrize(
    ("protocol", "data"),
    [
        ("range", PREVIOUS),
        (None, PREVIOUS),
        ("sticky", None),
        ("sticky", b""),
        ("sticky", PREVIOUS[:-1]),
        ("sticky", PREVIOUS + b"\0"),
        ("cooperative-sticky", b"\0\0\0\1\0"),
        ("stream", struct.pack(">i", 12) + bytes(40)),
        ("stream", b"\0\0"),
    ],
)
def test_what_is_not_known_is_none(protocol: str | None, data: bytes | None) -> None:
    assert of(protocol, data) is None


@pytest.mark.parametrize("corpus", ["streams-4.3", "classic-4.3"])
def test_what_clients_wrote_is_read(corpus: str) -> None:
    tables = tables_of(corpus)
    protocols = {row["group_id"]: row["protocol"] for row in tables["groups"].to_pylist()}
    known = ("sticky", "cooperative-sticky", "stream")
    members = [row for row in tables["group_members"].to_pylist() if row["user_data"]]
    read = [row for row in members if protocols[row["group_id"]] in known]
    assert read
    for row in read:
        assert row["user_data_json"] is not None, row
        fields = json.loads(row["user_data_json"])
        assert "generation" in fields or {"processId", "taskOffsetSums"} <= fields.keys()
