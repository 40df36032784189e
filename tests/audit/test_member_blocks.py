"""Members of classic groups by columns and record by record: the same rows, the same state."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.audit import member_blocks
from kgroups_spark.audit.member_blocks import BlockMembers, MemberBlocks
from kgroups_spark.audit.replay import ReplayContext, replay_partitions
from kgroups_spark.audit.replay_rows import FILE, RECORD, REPLAY_ROWS, replay_batch
from kgroups_spark.audit.row_replay import DECODED
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.messages.group_records import GroupRecord, GroupRecordDecoder
from tests.audit.pipeline import How, audit, audit_nights, cut_ranges, random_cuts, read_zip
from tests.audit.test_corpora import ANSWERS, CORPORA
from tests.audit.test_nights import RELEASES, logs, told
from tests.messages.test_group_records import sized, text
from tests.messages.test_offset_commits import changed

BY_COLUMNS, RECORD_BY_RECORD = 1, 1 << 62
Record = tuple[bytes, bytes | None]


def block_at(size_bytes: int) -> Any:
    """Blocks are made of so many bytes of values."""
    return mock.patch.object(member_blocks, "BLOCK_AT_BYTES", size_bytes)


@pytest.mark.parametrize("corpus", sorted(ANSWERS))
def test_logs_of_real_brokers(corpus: str) -> None:
    found = []
    for size_bytes in (BY_COLUMNS, RECORD_BY_RECORD):
        with block_at(size_bytes):
            found.append(told(audit(read_zip(CORPORA)[corpus], How(ANSWERS[corpus]["release"]))))
    assert found[0] == found[1]


@pytest.mark.parametrize("release", RELEASES)
def test_generated_logs_in_nights(release: str) -> None:
    rng = np.random.default_rng(7)
    for files in logs(release).values():
        nights = cut_ranges(files, random_cuts(files, rng, 2, 2))
        with block_at(BY_COLUMNS):
            by_columns = told(audit_nights(files, nights, How(release)))
        with block_at(RECORD_BY_RECORD):
            assert told(audit(files, How(release))) == by_columns


# ---- made-up groups


class Groups:
    """Records of a few groups whose members come, stay, change and go."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._members: dict[str, dict[str, bytes]] = {name: {} for name in ("a", "b", "c")}

    def records(self, count: int) -> list[Record]:
        return [record for _ in range(count) for record in self._record() if _decodes(*record)]

    def _record(self) -> Iterator[Record]:
        chance, group = self._chance, self._chance.choice("abc")
        key = b"\0\2" + text(group)
        if chance.random() < 0.1:
            yield key, None
            return
        version = chance.choice([0, 1, 2, 3, 3, 3, 3])
        members = self._members[group]
        for name in chance.sample("mnopqrst", 3):
            if chance.random() < 0.4:
                members.pop(name, None)
            else:
                members[name] = self._member(name, version)
        value = self._value(version, list(members.values()))
        yield key, changed(chance, value) if chance.random() < 0.15 else value
        if chance.random() < 0.3:
            yield key, value  # once more

    def _value(self, version: int, members: list[bytes]) -> bytes:
        chance = self._chance
        if version < 3 or chance.random() < 0.3:  # members of a version of their own
            members = [self._member(chance.choice("mnop"), version) for _ in range(chance.choice([0, 1, 2, 2]))]
        if members and chance.random() < 0.05:
            members = [*members, members[0]]
        kind = text(chance.choice(["consumer"] * 8 + ["connect", ""]))
        head = bytes([0, version]) + kind + chance.randrange(4).to_bytes(4, "big")
        head += text(chance.choice(["range", None])) + text(chance.choice(["m", None]))
        head += chance.randrange(-1, 2).to_bytes(8, "big", signed=True) if version >= 2 else b""
        return head + len(members).to_bytes(4, "big") + b"".join(members)

    def _member(self, name: str, version: int) -> bytes:
        chance = self._chance
        instance = text(chance.choice([None, None, f"i-{name}", "i"])) if version >= 3 else b""
        rebalance = chance.choice([-1, 5]).to_bytes(4, "big", signed=True) if version >= 1 else b""
        client = text(chance.choice(["c", "c", "d", "é"])) + text("/h")
        session = (10).to_bytes(4, "big")
        return text(name) + instance + client + rebalance + session + self._blobs()

    def _blobs(self) -> bytes:
        chance = self._chance
        version = chance.randrange(4)
        topics = [text(chance.choice(["t", "u", "v"])) for _ in range(chance.randrange(4))]
        subscription = bytes([0, version]) + len(topics).to_bytes(4, "big") + b"".join(topics) + sized(b"x")
        subscription += bytes(4) if version >= 1 else b""
        subscription += bytes(4) if version >= 2 else b""
        subscription += text(chance.choice(["r1", None])) if version >= 3 else b""
        partitions = [chance.randrange(5).to_bytes(4, "big") for _ in range(chance.randrange(4))]
        entry = text(chance.choice(["t", "u"])) + len(partitions).to_bytes(4, "big") + b"".join(partitions)
        assignment = b"\0\1" + (2).to_bytes(4, "big") + 2 * entry + b"\xff\xff\xff\xff"
        return sized(chance.choice([subscription, subscription, b""])) + sized(chance.choice([assignment, b""]))


def _decodes(key: bytes, value: bytes | None) -> bool:
    return isinstance(GroupRecordDecoder().decode(key, value), GroupRecord)


def record_rows(records: list[Record]) -> pa.RecordBatch:
    """Replay rows as stage 1 writes them."""
    columns = {
        "offsets_partition": pa.array([0] * len(records)),
        "log_offset": pa.array(range(len(records))),
        "kind": pa.array([RECORD] * len(records)),
        "log_timestamp": pa.array([1_000 * i for i in range(len(records))]),
        "record_type": pa.array([2] * len(records)),
        "producer_id": pa.array([-1] * len(records)),
        "producer_epoch": pa.array([-1] * len(records)),
        "is_transactional": pa.array([False] * len(records)),
        "group_id": pa.array([key[4:].decode() for key, _ in records]),
        "raw_key": pa.array([key for key, _ in records]),
        "raw_value": pa.array([value for _, value in records], pa.binary()),
    }
    return replay_batch(len(records), columns)


def replayed(records: list[Record], size_bytes: int, release: str, rows_per_batch: int) -> dict[str, Counter[str]]:
    """Rows of every table."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, REPLAY_ROWS) as writer:
        for start in range(0, len(records), rows_per_batch):
            writer.write_batch(record_rows(records).slice(start, rows_per_batch))
    topics = Topics()
    topics.learn("T" * 22, "t", 1, "offset_commit")
    context = ReplayContext(1, release, None, topics, lambda _: io.BytesIO(sink.getvalue()))
    file = {"offsets_partition": pa.array([0]), "kind": pa.array([FILE]), "text": pa.array(["a file"])}
    found: dict[str, Counter[str]] = {}
    with block_at(size_bytes):
        for name, batch in replay_partitions([replay_batch(1, file)], context):
            found.setdefault(name, Counter()).update(map(repr, batch.to_pylist()))
    return found


@pytest.mark.parametrize("release", ["4.3", "4.0", "2.8", "0.11"])
@pytest.mark.parametrize("seed", range(4))
def test_made_up_groups(seed: int, release: str) -> None:
    records = Groups(seed).records(150)
    expected = replayed(records, RECORD_BY_RECORD, release, len(records))
    assert set(expected) >= {"group_versions", "group_member_versions", "coordinator_state", "quarantine"}
    for rows_per_batch in (len(records), 20, 1):
        assert replayed(records, BY_COLUMNS, release, rows_per_batch) == expected
    assert replayed(records, 600, release, 2) == expected  # some by columns, some record by record


def value_of(version: int, members: list[bytes]) -> bytes:
    since = bytes(8) if version >= 2 else b""
    head = bytes([0, version]) + text("consumer") + bytes(4) + text("range") + text("m") + since
    return head + len(members).to_bytes(4, "big") + b"".join(members)


def member_of(name: str, version: int, no_instance: bytes = b"\xff\xff") -> bytes:
    instance = no_instance if version >= 3 else b""
    rebalance = b"\xff\xff\xff\xff" if version >= 1 else b""
    return text(name) + instance + text("c") + text("/h") + rebalance + bytes(4) + sized(b"") + sized(b"")


@pytest.mark.parametrize(
    "values",
    [
        [value_of(version, [member_of("m", version)]) for version in (0, 1, 2, 3, 0)],
        [value_of(3, [member_of("m", 3)]), value_of(3, [member_of("m", 3, b"\xff\xfe")])],
    ],
    ids=["of another value version", "with a null written otherwise"],
)
def test_the_same_member_in_other_bytes_has_one_version(values: list[bytes]) -> None:
    records: list[Record] = [(b"\0\2" + text("g"), value) for value in values]
    found = replayed(records, BY_COLUMNS, "4.3", len(records))
    assert found == replayed(records, RECORD_BY_RECORD, "4.3", len(records))
    assert found["group_member_versions"].total() == 1


def test_a_member_that_comes_twice_and_is_not_the_last_fails_the_load() -> None:
    twice = [member_of(name, 3) for name in ("m", "m", "n")]
    records: list[Record] = [(b"\0\2" + text("g"), value_of(3, twice))]
    found = replayed(records, BY_COLUMNS, "4.3", 1)
    assert found == replayed(records, RECORD_BY_RECORD, "4.3", 1)
    assert found["quarantine"].total() == 1


def test_most_made_up_groups_are_plain() -> None:
    records = Groups(0).records(150)
    with block_at(BY_COLUMNS):
        found = [row[DECODED] for row in MemberBlocks(GroupRecordDecoder()).rows_of(record_rows(records))]
    assert sum(record is not None for record in found) > len(records) / 3
    assert sum(record is None for record in found) > len(records) / 10


def test_a_block_keeps_only_what_is_in_use() -> None:
    records = Groups(1).records(60)
    with block_at(BY_COLUMNS):
        blocks = MemberBlocks(GroupRecordDecoder())
        rows = [row for row in blocks.rows_of(record_rows(records)) if row[DECODED] is not None]
    members: list[BlockMembers] = [row[DECODED].value["members"] for row in rows if row[DECODED].value["members"]]
    before = members[-1].block.members.num_rows
    kept = members[3]
    expected = (kept.ids(), kept.fingerprints(), kept.instance_ids(), list(kept))
    del members, rows
    blocks.shrink()
    assert kept.block.members.num_rows == len(kept) < before
    assert (kept.ids(), kept.fingerprints(), kept.instance_ids(), list(kept)) == expected
    texts = [kept.value_json(), kept.value_json()]
    assert texts[0] == texts[1] == kept.block.record(kept.value).value_json()
