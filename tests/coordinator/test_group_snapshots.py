"""Classic groups read in blocks from `group_records`, and record by record: the same rows and state."""

from __future__ import annotations

import itertools
from collections import Counter
from unittest import mock

import pyarrow as pa
import pytest

from kgroups_spark.coordinator import group_snapshots
from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.events import topics_of
from kgroups_spark.coordinator.group_snapshots import GroupSnapshots, SnapshotMembers
from kgroups_spark.coordinator.releases import expiry_rules, release
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder, JsonRecord
from kgroups_spark.replay.state import saved
from kgroups_spark.tables.schemas import arrow_schema
from tests.chosen import one_of
from tests.coordinator.log_rows import ReplayRow
from tests.findings.record_bytes import blob
from tests.messages.group_record_bytes import KEY, Snapshots, member, snapshot
from tests.replay.replayed_shards import night, replayed

Rows = dict[str, Counter[str]]
GROUP_RECORDS = arrow_schema("group_records")
READ = ("record_type", "group_id", "member_id", "regular_expression", "value_version", "value")


def blocks_of(size_bytes, at_bytes=1):
    """Values are read together in blocks of this size, if there are at least `at_bytes` of them."""
    sizes = {"BLOCK_BYTES": size_bytes, "BLOCK_AT_BYTES": at_bytes}
    return mock.patch.multiple(group_snapshots, **sizes)


def history(records):
    """Rows of `group_records`."""
    decoded = map(GroupRecordDecoder().decode, *zip(*records, strict=True))
    rows = [(*(getattr(record, name) for name in READ[:-1]), record.value_json()) for record in decoded]
    fields = [GROUP_RECORDS.field(name) for name in READ]
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(each, field.type) for each, field in zip(columns, fields, strict=True)], list(READ))


def one_by_one(rows):
    """The slow, obvious twin."""
    return (JsonRecord(*row.values()) for row in rows.to_pylist())


def is_in_block(record):
    return isinstance(record.content, dict)


def replay_rows(records):
    names = ("record_type", "group_id", "value", "value_version")
    decoded = enumerate(map(GroupRecordDecoder().decode, *zip(*records, strict=True)))
    return [
        ReplayRow(at, 1000 * at, "group_record", **{name: getattr(record, name) for name in names})
        for at, record in decoded
    ]


def plain(record):
    return record.value and {**record.value, "members": list(record.value["members"])}


# ---- record by record, and in blocks


@pytest.mark.parametrize("version", one_of("4.3", "4.0", "2.8", "0.11"))
@pytest.mark.parametrize("made", one_of((0, 0), (0.02, 1), (0.05, 2), (0.2, 3)))
def test_made_up_groups(made, version):
    odd, seed = made
    records = Snapshots(seed, odd=odd).records(60)
    records[::3] = ((k, v and v.replace(b"\0\2m", b"\0\2n")) for k, v in records[::3])  # static members are replaced
    rows = replay_rows(records)
    expected, state = blocks_of(1 << 20, 1 << 20)(replayed)(rows, night(version))  # too few bytes for a block
    assert ("member_replaced" in str(expected["group_events"])) is (version != "0.11")
    for size_bytes, at_bytes, every in ((1 << 20, 1, 1000), (20_000, 1, 20), (3_000, 2_000, 8)):
        with blocks_of(size_bytes, at_bytes), mock.patch("kgroups_spark.replay.shard.RECORDS_AT_ONCE", every):
            found, state_of_blocks = replayed(rows, night(version))
            assert found == expected
            assert saved(state_of_blocks).equals(saved(state))


def test_most_made_up_groups_are_in_blocks_and_some_are_not():
    rows = history(Snapshots(0, odd=0.005).records(150))
    with blocks_of(1 << 20):
        found = Counter(map(is_in_block, GroupSnapshots().records(rows)))
    assert found[True] > 75 and found[False] > 15


def test_topics_of_members_on_demand_are_those_of_their_dicts():
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


def test_rows_may_be_in_several_chunks_or_there_may_be_none():
    rows = history(Snapshots(0).records(60))
    with blocks_of(10_000):
        whole = [plain(record) for record in GroupSnapshots().records(rows)]
        chunks = pa.concat_tables([rows.slice(0, 20), rows.slice(20, 0), rows.slice(20)])
        assert [plain(record) for record in GroupSnapshots().records(chunks)] == whole
    assert list(GroupSnapshots().records(rows.slice(0, 0))) == []


# ---- blocks


def in_blocks(records, size_bytes=1 << 20):
    """The members of all values that are in blocks and have any."""
    snapshots = GroupSnapshots()
    with blocks_of(size_bytes):
        found = list(filter(is_in_block, snapshots.records(history(records))))
    return snapshots, [record.value["members"] for record in found if record.value["members"]]


def reported_of(members):
    texts = map(members.texts, ("member_id", "group_instance_id", "assigned_partitions"))
    return (members.fingerprints(), *texts, members.value_json(), list(members), len(members))


def test_a_block_keeps_only_the_members_in_use():
    snapshots, members = in_blocks(Snapshots(1).records(60))
    before, kept = members[0].block.members.num_rows, [members[3], members[5]]
    expected = [reported_of(each) for each in kept]
    del members
    snapshots.shrink()
    assert kept[0].block.members.num_rows == sum(map(len, kept)) < before
    assert kept[0].block is kept[1].block
    assert [reported_of(each) for each in kept] == expected


def test_blocks_are_cut_at_one_size_and_snapshots_are_full_at_another():
    records = Snapshots(1).records(60)
    snapshots, members = in_blocks(records, 10_000)
    blocks = {id(each.block): each.block for each in members}
    assert len(blocks) > 3
    assert not snapshots.is_full
    with mock.patch.object(group_snapshots, "FULL_BYTES", sum(block.size_bytes for block in blocks.values()) - 1):
        assert snapshots.is_full
        snapshots.shrink()
        assert not snapshots.is_full


def test_too_few_bytes_make_no_block():
    rows = history(Snapshots(1).records(60))
    assert not any(map(is_in_block, GroupSnapshots().records(rows.slice(0, 5))))


OTHER_TYPES = [snapshot([], protocolType=kind) for kind in (b"connect", b"", b"consumers")]
WITH_ESCAPES = [snapshot([member(clientId=text)]) for text in (b'q"uote', b"back\\slash", b'"}},{"memberId":"m"}]}')]


@pytest.mark.parametrize("value", [*OTHER_TYPES, *WITH_ESCAPES])
def test_values_of_other_protocol_types_or_with_escapes_are_in_no_block(value):
    rows = history([(KEY, value), (KEY, snapshot([member()]))])
    with blocks_of(1 << 20):
        found = list(GroupSnapshots().records(rows))
    assert [*map(is_in_block, found)] == [False, True]
    assert [*map(plain, found)] == [*map(plain, one_by_one(rows))]


@pytest.mark.parametrize(("one", "other"), list(itertools.pairwise((b"", b"m", b"x" * 300, b"},{memberId:m", b"}]}"))))
def test_different_members_have_different_fingerprints_and_equal_ones_the_same(one, other):
    members = [member(memberId=one, clientId=other), member(memberId=other, clientId=one), member(memberId=one)]
    _, (first, second) = in_blocks([(KEY, snapshot([*members, members[0]]))] * 2)
    found = first.fingerprints()
    assert found == second.fingerprints()
    assert len(found) == 4 and len(set(found)) == 3 and found[0] == found[3]
    assert first.texts("member_id") == [text.split(b'"')[1].decode() for text in found]
