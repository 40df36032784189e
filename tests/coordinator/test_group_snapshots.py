"""Classic groups read in blocks from `group_records`, and record by record: the same rows and state."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from kgroups_spark.coordinator import group_snapshots
from kgroups_spark.coordinator import rows as coordinator_rows
from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.events import Rules, topics_of
from kgroups_spark.coordinator.group_snapshots import DecodedRecord, GroupSnapshots, SnapshotMembers, SnapshotRecord
from kgroups_spark.coordinator.releases import ReplayFailure, expiry_rules, release
from kgroups_spark.coordinator.versions import MemberVersions
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder, JsonRecord
from kgroups_spark.replay.rows import event_batches, member_batches, member_version_batches
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import arrow_schema
from tests.chosen import one_of
from tests.findings.record_bytes import blob
from tests.messages.group_record_bytes import KEY, member, snapshot
from tests.messages.made_snapshots import ODD_TEXTS, Record, Snapshots
from tests.nights.reported_tables import unordered
from tests.twin.shard import Shard

Rows = dict[str, Counter[str]]
GROUP_RECORDS = arrow_schema("group_records")
READ = ("record_type", "group_id", "member_id", "regular_expression", "value_version", "value")


def blocks_of(size_bytes: int, at_bytes: int = 1) -> Any:
    """Values are read together in blocks of this size, if there are at least `at_bytes` of them."""
    sizes = {"BLOCK_BYTES": size_bytes, "BLOCK_AT_BYTES": at_bytes}
    return mock.patch.multiple(group_snapshots, **sizes)


def history(records: list[Record]) -> pa.Table:
    """Rows of `group_records`."""
    decoded = map(GroupRecordDecoder().decode, *zip(*records, strict=True))
    rows = [(*(getattr(record, name) for name in READ[:-1]), record.value_json()) for record in decoded]
    fields = [GROUP_RECORDS.field(name) for name in READ]
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(each, field.type) for each, field in zip(columns, fields, strict=True)], list(READ))


def one_by_one(rows: pa.Table) -> Iterator[DecodedRecord]:
    """The slow, obvious twin."""
    return (JsonRecord(*row.values()) for row in rows.to_pylist())


class Replayed:
    """Rows of every table after these records; `shrink` is called after each `every` of them."""

    def __init__(self, records: Iterable[DecodedRecord], version: str, shrink: Callable[[], None], every: int) -> None:
        self.release = release(version)
        self.shard = Shard(self.release, 0, recording=True)
        self.events = self.shard.record_events(Rules(expiry_rules(version), ((0, 1_000_000),)))
        self.rows: Rows = {}
        for log_offset, record in enumerate(records):
            self._replay(log_offset, record)
            if log_offset % every == 0:
                self._changes()
                shrink()
        self.events.close()
        self._changes()
        shrink()
        self._current()

    def _replay(self, log_offset: int, record: DecodedRecord) -> None:
        key = (record.record_type, record.group_id, record.member_id, record.regular_expression)
        try:
            self.shard.replay_group_record(
                log_offset, 1000 * log_offset, *key, record.value, value_version=record.value_version
            )
        except ReplayFailure as failure:
            self._tell("failures", [(log_offset, record.record_name, str(failure))])

    def _changes(self) -> None:
        changes = self.shard.take_changes()
        for name, kind in coordinator_rows.VERSIONS.items():
            self._tell_batch(name, kind._fields, [c for c in changes if isinstance(c, kind)])
        on_demand = [change for change in changes if isinstance(change, MemberVersions)]
        for batch in member_version_batches(on_demand, self.release, audit_id=1):
            self._tell("group_member_versions", batch.to_pylist())
        for batch in event_batches([(0, event) for event in self.events.take()], audit_id=1):
            self._tell("group_events", batch.to_pylist())

    def _current(self) -> None:
        shard = self.shard
        shard.topics.learn("T" * 22, "t", 1, "offset_commit")
        self._tell_batch("groups", coordinator_rows.GroupRow._fields, list(shard.group_rows(50)))
        members = list(shard.member_rows(on_demand=False))
        self._tell_batch("group_members", coordinator_rows.MemberRow._fields, members)
        groups = [(0, group) for group in shard.groups_on_demand()]
        for batch in member_batches(groups, shard.topics, self.release, audit_id=1):
            self._tell("group_members", batch.to_pylist())
        state = [(row.entry_type, row.group_id, unordered(json.loads(row.payload))) for row in shard.save()]
        self._tell("state", state)

    def _tell_batch(self, name: str, columns: tuple[str, ...], rows: list[Any]) -> None:
        self._tell(name, table_batch(name, columns, rows, audit_id=1).to_pylist())

    def _tell(self, name: str, rows: Iterable[Any]) -> None:
        self.rows.setdefault(name, Counter()).update(map(repr, rows))


def nothing() -> None:
    pass


# ---- record by record, and in blocks


@pytest.mark.parametrize("version", one_of("4.3", "4.0", "2.8", "0.11"))
@pytest.mark.parametrize("made", one_of((0, 0), (0.02, 1), (0.05, 2), (0.2, 3)))
def test_made_up_groups(made: tuple[float, int], version: str) -> None:
    odd, seed = made
    rows = history(Snapshots(seed, odd=odd).records(120))
    expected = Replayed(one_by_one(rows), version, nothing, 40).rows
    assert expected["group_versions"] and expected["group_member_versions"] and expected["group_members"]
    for size_bytes, at_bytes, every in ((1 << 20, 1, 1000), (20_000, 1, 20), (3_000, 2_000, 8)):
        with blocks_of(size_bytes, at_bytes):
            snapshots = GroupSnapshots()
            found = Replayed(snapshots.records(rows), version, snapshots.shrink, every).rows
        assert found == expected


def test_most_made_up_groups_are_in_blocks_and_some_are_not() -> None:
    rows = history(Snapshots(0, odd=0.03).records(150))
    with blocks_of(1 << 20):
        found = Counter(type(record) for record in GroupSnapshots().records(rows))
    assert found[SnapshotRecord] > 75 and found[JsonRecord] > 30


def test_topics_of_members_on_demand_are_those_of_their_dicts() -> None:
    """Also with a repeated member id, whose last subscription counts, and with a member without one."""
    t, u, none = (
        blob("ConsumerProtocolSubscription", {"topics": topics}) for topics in (["t", "v"], ["u"], list[str]())
    )
    groups = [[t, u], [t, none, t], [t, b""], [u, t, t]]
    ids = [b"ab", b"abc", b"ab", b"aba"]
    members = [
        [member(memberId=b"%c" % name, subscription=each) for name, each in zip(its, given, strict=True)]
        for its, given in zip(ids, groups, strict=True)
    ]
    rows = history([(KEY, snapshot(each)) for each in members])
    with blocks_of(1 << 20):
        on_demand = [record.value for record in GroupSnapshots().records(rows)]
    newest, rules = release("4.3"), expiry_rules("4.3")
    found = [topics_of(ClassicGroup(newest, "g", value, 3), rules) for value in on_demand]
    assert found == [topics_of(ClassicGroup(newest, "g", each.value, 3), rules) for each in one_by_one(rows)]
    assert found == [{"t", "u", "v"}, {"t", "v"}, None, {"t", "v"}]
    assert all(isinstance(value["members"], SnapshotMembers) for value in on_demand if value is not None)


def test_rows_may_be_in_several_chunks_or_there_may_be_none() -> None:
    rows = history(Snapshots(0).records(60))
    with blocks_of(10_000):
        whole = Replayed(GroupSnapshots().records(rows), "4.3", nothing, 1000).rows
        chunks = pa.concat_tables([rows.slice(0, 20), rows.slice(20, 0), rows.slice(20)])
        assert Replayed(GroupSnapshots().records(chunks), "4.3", nothing, 1000).rows == whole
    assert list(GroupSnapshots().records(rows.slice(0, 0))) == []


# ---- blocks


def in_blocks(records: list[Record], size_bytes: int = 1 << 20) -> tuple[GroupSnapshots, list[SnapshotMembers]]:
    """The members of all values that are in blocks and have any."""
    snapshots = GroupSnapshots()
    with blocks_of(size_bytes):
        found = [record for record in snapshots.records(history(records)) if isinstance(record, SnapshotRecord)]
    return snapshots, [record.value["members"] for record in found if record.value["members"]]


def reported_of(members: SnapshotMembers) -> tuple[Any, ...]:
    asked = (members.ids(), members.texts("group_instance_id"), members.fingerprints(), members.assignments())
    return (*asked, members.value_json(), list(members), len(members))


def test_a_block_keeps_only_the_members_in_use() -> None:
    snapshots, members = in_blocks(Snapshots(1).records(60))
    before, kept = members[0].block.members.num_rows, [members[3], members[5]]
    expected = [reported_of(each) for each in kept]
    del members
    snapshots.shrink()
    assert kept[0].block.members.num_rows == sum(map(len, kept)) < before
    assert kept[0].block is kept[1].block
    assert [reported_of(each) for each in kept] == expected


def test_blocks_are_cut_at_one_size_and_snapshots_are_full_at_another() -> None:
    records = Snapshots(1).records(60)
    snapshots, members = in_blocks(records, 10_000)
    blocks = {id(each.block): each.block for each in members}
    assert len(blocks) > 3
    assert not snapshots.is_full
    with mock.patch.object(group_snapshots, "FULL_BYTES", sum(block.size_bytes for block in blocks.values()) - 1):
        assert snapshots.is_full
        snapshots.shrink()
        assert not snapshots.is_full


def test_too_few_bytes_make_no_block() -> None:
    rows = history(Snapshots(1).records(60))
    assert {type(record) for record in GroupSnapshots().records(rows.slice(0, 5))} == {JsonRecord}


@pytest.mark.parametrize("kind", [b"connect", b"", b"consumers"])
def test_values_of_other_protocol_types_are_in_no_block(kind: bytes) -> None:
    rows = history([(KEY, snapshot([], protocolType=each)) for each in (kind, b"consumer")])
    with blocks_of(1 << 20):
        other, consumer = GroupSnapshots().records(rows)
    assert (type(other), type(consumer)) == (JsonRecord, SnapshotRecord)
    assert other.value is not None and other.value["protocolType"] == kind.decode()


@pytest.mark.parametrize(("one", "other"), list(itertools.pairwise(text for text in ODD_TEXTS if text.isascii())))
def test_different_members_have_different_fingerprints_and_equal_ones_the_same(one: bytes, other: bytes) -> None:
    members = [member(memberId=one, clientId=other), member(memberId=other, clientId=one), member(memberId=one)]
    _, (first, second) = in_blocks([(KEY, snapshot([*members, members[0]]))] * 2)
    found = first.fingerprints()
    assert found == second.fingerprints()
    assert len(found) == 4 and len(set(found)) == 3 and found[0] == found[3]
    assert first.ids() == [json.loads(text) for text in (first_string(each) for each in found)]


def first_string(text: bytes) -> bytes:
    """The member id at the beginning of a member's text, as it is written."""
    _, end = json.JSONDecoder().raw_decode(text.decode())
    return text.decode()[:end].encode()
