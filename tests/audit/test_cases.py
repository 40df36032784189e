"""Cases of docs/coordinator-semantics.md, section 9, that bytes decide: a log written byte by byte, through the whole
audit.

The cases that the state machine decides are in tests/coordinator, those of expiry in tests/expiry/cases.py.
"""

from __future__ import annotations

import re
import struct
from functools import cache
from pathlib import Path

import pytest

from tests.nights.nights_here import LOOKING, How, audit, new_lake
from tests.records.build import batch, message, record

TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x10, 0x30, 0x40
T0 = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


def text(value):
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">h", len(raw)) + raw


def blob(value):
    return struct.pack(">i", len(value)) + value


def offset_key(group="g", topic="t", partition=0, record_type=1):
    return struct.pack(">h", record_type) + text(group) + text(topic) + struct.pack(">i", partition)


def offset_v3(offset, metadata="", epoch=-1):
    return struct.pack(">hqi", 3, offset, epoch) + text(metadata) + struct.pack(">q", T0)


def group_key(group="g", record_type=2):
    return struct.pack(">h", record_type) + text(group)


def marker(base_offset, producer_id, control_type=1, epoch=0):
    end = (struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 11))
    return batch(base_offset, [end], attributes=CONTROL, producer_id=producer_id, producer_epoch=epoch)


def run(*batches, partition=0, how=How()):  # noqa: B008  frozen
    return audit({f"__consumer_offsets-{partition}/{0:020d}.log": b"".join(batches)}, how)


def offsets(audited):
    return {row["topic"]: row["committed_offset"] for row in audited.rows("committed_offsets")}


def reasons(audited):
    return [(r["log_offset"], r["reason"], r["coordinator_fails"]) for r in audited.rows("quarantine")]


def test_t04_the_leader_epoch_is_between_offset_and_metadata_in_v3_and_v4():
    v4 = struct.pack(">hqi", 4, 7, 8) + b"\x05meta" + struct.pack(">q", T0) + b"\0"
    audited = run(batch(0, [(offset_key(topic="v3"), offset_v3(5, "meta", 6)), (offset_key(topic="v4"), v4)]))
    rows = [
        (r["topic"], r["committed_offset"], r["leader_epoch"], r["metadata"]) for r in audited.rows("offset_commits")
    ]
    assert sorted(rows) == [("v3", 5, 6, "meta"), ("v4", 7, 8, "meta")]


def test_t07_a_member_has_its_rebalance_timeout_before_its_session_timeout():
    member = text("m") + text("instance") + text("client") + text("/host") + struct.pack(">ii", 300_000, 45_000)
    value = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 1) + text("range") + text("m")
    value += struct.pack(">qi", T0, 1) + member + blob(b"") + blob(b"")
    (row,) = run(batch(0, [(group_key(), value)])).rows("group_members")
    assert (row["group_instance_id"], row["client_id"]) == ("instance", "client")
    assert (row["rebalance_timeout_ms"], row["session_timeout_ms"]) == (300_000, 45_000)


def test_t24_the_later_of_two_records_of_one_slot_in_one_batch_wins():
    records = [(offset_key(), offset_v3(1)), (offset_key(), offset_v3(2))]
    assert offsets(run(batch(0, records))) == {"t": 2}
    in_transaction = batch(0, records, attributes=TRANSACTIONAL, producer_id=9, producer_epoch=0)
    assert offsets(run(in_transaction, marker(2, 9))) == {"t": 2}


def test_t27_empty_batches_open_no_transaction_and_move_the_next_offset():
    empty = batch(0, [], attributes=TRANSACTIONAL, producer_id=9, producer_epoch=0, last_offset_delta=4, count=0)
    empty_control = batch(5, [], attributes=CONTROL, producer_id=9, producer_epoch=0, last_offset_delta=0, count=0)
    audited = run(empty, empty_control, batch(6, [(offset_key(), offset_v3(1))]))
    assert audited.rows("open_transactions") == []
    assert offsets(audited) == {"t": 1}
    assert audited.records_read(0) == 1


def test_a_control_record_without_a_readable_key_begins_no_transaction():
    cut_off = batch(0, [(b"\0\0", b"")], attributes=CONTROL, producer_id=9, producer_epoch=0)
    audited = run(cut_off, batch(1, [(offset_key(), offset_v3(1))]))
    assert reasons(audited) == [(0, "truncated", True)]
    assert audited.rows("open_transactions") == []


@pytest.mark.parametrize("nights", [1, 2])
def test_a_transactional_batch_without_a_producer_waits_for_a_marker_of_producer_minus_1(nights):
    """3.9.2's loader does so; Java's commits the offset at once. No producer of Kafka's writes it."""
    path, value = (
        f"__consumer_offsets-0/{0:020d}.log",
        batch(0, [(offset_key(), offset_v3(5))], attributes=TRANSACTIONAL),
    )
    audited, java = audit({path: value}, How("3.9")), run(value)
    assert [(row["producer_id"], row["committed_offset"]) for row in audited.rows("pending_offsets")] == [(-1, 5)]
    assert offsets(audited) == {} and offsets(java) == {"t": 5}
    whole = {path: value + marker(1, -1)}
    audited = audited if nights == 2 else new_lake()
    audited.night(whole, How("3.9"))
    assert audited.rows("pending_offsets") == [] and offsets(audited) == {"t": 5}


def test_t42_an_empty_value_is_not_a_tombstone():
    records = [(offset_key(), offset_v3(1)), (offset_key(), b""), (group_key("h"), b"")]
    audited = run(batch(0, records))
    assert offsets(audited) == {"t": 1}
    assert reasons(audited) == [(1, "empty_value", True), (2, "empty_value", True)]


def test_t45_offsets_come_from_deltas_and_a_batch_may_begin_after_its_base_offset():
    from tests.records.build import record

    body = record(3, offset_key(), offset_v3(1))
    audited = run(batch(10, [], body=body, count=1, last_offset_delta=9), batch(20, [(offset_key(), offset_v3(2))]))
    assert sorted(r["log_offset"] for r in audited.rows("offset_commits")) == [13, 20]


def test_t46_a_delete_horizon_is_not_the_time_of_a_record():
    from tests.records.build import record

    horizon = T0 + 86_400_000
    body = record(0, offset_key(), None, timestamp_delta=T0 - horizon)
    horizon_batch = batch(0, [], body=body, count=1, attributes=DELETE_HORIZON, base_timestamp=horizon)
    (row,) = run(horizon_batch).rows("offset_commits")
    assert row["log_timestamp"].timestamp() * 1000 == T0


def test_t47_inner_offsets_of_a_magic_1_wrapper_count_back_from_its_own():
    import gzip

    inner = b"".join(message(i, offset_key(topic=f"t{i}"), offset_v3(i), magic=1) for i in range(3))
    wrapper = message(41, None, gzip.compress(inner), magic=1, attributes=1)
    audited = audit({f"__consumer_offsets-0/{39:020d}.log": wrapper})
    assert sorted(r["log_offset"] for r in audited.rows("offset_commits")) == [39, 40, 41]


def test_t48_a_half_written_or_zeroed_tail_is_not_damage():
    first = batch(0, [(offset_key(), offset_v3(1))])
    second = batch(1, [(offset_key(), offset_v3(2))])
    for tail in (second[:-1], second[:20], bytes(100)):
        audited = run(first, tail)
        assert (offsets(audited), reasons(audited)) == ({"t": 1}, [])


def test_t49_a_wrong_checksum_costs_only_its_batch():
    bad = bytearray(batch(1, [(offset_key(), offset_v3(2))]))
    bad[-3] ^= 1
    audited = run(batch(0, [(offset_key(), offset_v3(1))]), bytes(bad), batch(2, [(offset_key("h"), offset_v3(3))]))
    assert [r["committed_offset"] for r in audited.rows("committed_offsets")] == [1, 3]
    assert [(offset, reason) for offset, reason, _ in reasons(audited)] == [(1, "corrupt_batch")]


ODD_OFFSETS = [
    # Offset deltas of commits to t-0 (5), t-0 (7), u-0 (9), and the batch's last one.
    ([0, 2, 1], 2),
    ([1, 0, 2], 2),
    ([0, 1, 1], 2),
    ([0, 0, 0], 2),
    ([0, 1, 9], 2),
    ([0, -1, 1], 2),
    ([4, 2, 0], 4),  # what the cleaner left
]


@pytest.mark.parametrize("release", ["4.4", "3.9"])
@pytest.mark.parametrize(("deltas", "last"), ODD_OFFSETS)
def test_records_in_another_order_than_their_offsets_are_applied_as_kafka_does(release, deltas, last):
    """KAFKA-8722. The loaders of 3.9.2 to 4.4.0 take a batch's records as they follow each other."""
    pairs = [(offset_key(), offset_v3(5)), (offset_key(), offset_v3(7)), (offset_key(topic="u"), offset_v3(9))]
    body = b"".join(record(delta, *pair) for delta, pair in zip(deltas, pairs, strict=True))
    odd = batch(10, pairs, body=body, last_offset_delta=last)
    segment = odd + batch(11 + last, [(offset_key("h"), offset_v3(3))])
    files = {f"__consumer_offsets-0/{10:020d}.log": segment}
    audited = audit(files, How(release))
    committed = {(row["group_id"], row["topic"]): row["committed_offset"] for row in audited.rows("committed_offsets")}
    assert committed == {("g", "t"): 7, ("g", "u"): 9, ("h", "t"): 3}
    assert reasons(audited) == []
    assert [(row["group_id"], row["log_offset"], row["committed_offset"]) for row in in_log_order(audited)] == [
        ("g", 10, 5),
        ("g", 11, 7),
        ("g", 12, 9),
        ("h", 11 + last, 3),
    ]
    pending = batch(10, pairs, body=body, last_offset_delta=last, attributes=TRANSACTIONAL, producer_id=8)
    files = {f"__consumer_offsets-0/{10:020d}.log": pending + marker(11 + last, 8)}
    assert offsets(audit(files, How(release))) == {"t": 7, "u": 9}


def load_would_fail(audited):
    return [row["detail"] for row in audited.rows("findings") if row["finding"] == "load_would_fail"]


def in_log_order(audited):
    return sorted(audited.rows("offset_commits"), key=lambda row: row["log_offset"])


def test_a_batch_without_room_for_its_records_is_not_said_to_stop_a_load_for_certain():
    pairs = [(offset_key(topic=topic), offset_v3(1)) for topic in "tu"]
    audited = run(batch(0, pairs, last_offset_delta=0), batch(1, [(offset_key("h"), offset_v3(3))]), how=LOOKING)
    assert [(offset, reason) for offset, reason, _ in reasons(audited)] == [(0, "corrupt_batch")]
    (detail,) = load_would_fail(audited)
    assert "checks no CRC, and may load other values or stop loading partition 0" in detail
    (detail,) = load_would_fail(run(batch(0, [(offset_key(), b"")]), how=LOOKING))
    assert "would stop loading partition 0" in detail


def test_t50_the_smallest_hash_belongs_to_partition_0_and_emoji_hash_by_surrogates():
    def misplaced(group, partition):
        files = {f"__consumer_offsets-{partition}/{0:020d}.log": batch(0, [(offset_key(group), offset_v3(1))])}
        (row,) = audit(files, How(offsets_partitions=50)).rows("groups")
        found: bool = row["is_misplaced"]
        return found

    assert not misplaced("polygenelubricants", 0)
    assert not misplaced("😀", 49)
    assert misplaced("😀", 48)


def test_what_changed_since_the_audit_before_is_said():
    log = [batch(n, [(offset_key(group), offset_v3(1))]) for n, group in enumerate("ab")]
    audited = run(log[0])
    audited.night({f"__consumer_offsets-0/{0:020d}.log": b"".join(log)}, How())
    assert [night.changes for night in audited.nights] == [
        None,
        "since audit 1: 1 group is new (b); +1 committed offset",
    ]


@pytest.mark.parametrize("given", [50, None])
def test_a_group_in_two_offsets_partitions_is_counted_once(given):
    """As after a change of the partition count. Without a count that fits, no row is known to be misplaced."""
    groups = [(12, "test-group"), (13, "test-group"), (13, "other"), (47, "a")]
    files = {
        f"__consumer_offsets-{p}/{0:020d}.log": b"".join(
            batch(n, [(offset_key(group), offset_v3(1))]) for n, (_, group) in enumerate(g for g in groups if g[0] == p)
        )
        for p, _ in groups
    }
    (night,) = audit(files, How(offsets_partitions=given)).nights
    assert (night.now.rows["groups"], night.now.groups) == (4, 3)


@pytest.mark.parametrize(
    ("partition", "given", "misplaced", "is_noted"),
    [(12, None, False, False), (13, None, None, True), (13, 50, True, False)],
)
def test_names_that_fit_no_partition_count_are_noted_every_night(partition, given, misplaced, is_noted):
    """Among 50 partitions "a" is in 47 and "test-group" in 12; among others "a" is never in 47."""
    groups = {"a": 47, "test-group": partition}
    files = {
        f"__consumer_offsets-{p}/{0:020d}.log": batch(0, [(offset_key(g), offset_v3(1))]) for g, p in groups.items()
    }
    audited = audit(files, How(offsets_partitions=given))
    audited.night(files, How(offsets_partitions=given))
    found = {row["group_id"]: row["is_misplaced"] for row in audited.rows("groups")}
    assert found["test-group"] is misplaced
    notes = [
        [note for note in night.audit.notes if "no partition count up to 2,000 fits" in note]
        for night in audited.nights
    ]
    assert [len(each) for each in notes] == ([1, 1] if is_noted else [0, 0])


def test_t57_offsets_that_a_plain_consumer_takes_for_committed_are_aborted_or_pending():
    aborted = batch(0, [(offset_key(topic="aborted"), offset_v3(1))], attributes=TRANSACTIONAL, producer_id=8)
    pending = batch(2, [(offset_key(topic="pending"), offset_v3(2))], attributes=TRANSACTIONAL, producer_id=9)
    plain = batch(3, [(offset_key(topic="plain"), offset_v3(3))])
    audited = run(aborted, marker(1, 8, control_type=0), pending, plain)
    # A consumer is given keys and values alone: all three look alike.
    assert {r["topic"] for r in audited.rows("offset_commits")} == {"aborted", "pending", "plain"}
    assert offsets(audited) == {"plain": 3}
    assert [(r["topic"], r["producer_id"]) for r in audited.rows("pending_offsets")] == [("pending", 9)]


def test_t58_an_early_access_value_is_kept_and_named_as_a_load_failure_of_other_releases():
    # 3.7: a member's metadata ends with its client-side assignors, here one.
    value = b"\0\0\0\0\2c\2/\1\0" + bytes(4) + b"\0" + b"\2\2n\0\1\0\2\0\0\3\3mm\0\0"
    key = struct.pack(">h", 5) + text("g") + text("m")
    files = {f"__consumer_offsets-0/{0:020d}.log": batch(0, [(key, value)])}
    audited = audit(files)
    assert [r["record_name"] for r in audited.rows("group_records")] == ["ConsumerGroupMemberMetadata"]
    assert [(r["reason"], r["coordinator_fails"], r["record_count"]) for r in audited.rows("quarantine")] == [
        ("load_would_fail", True, 0)
    ]
    assert reasons(audit(files, How(release="3.7-java"))) == []


def test_t59_a_null_struct_in_a_tag_is_a_varint_of_0_and_a_missing_tag_is_an_empty_struct():
    """Kafka 4.3.1: ClassicMemberMetadata has the default JSON null, which its generator takes for none given."""
    head = struct.pack(">h", 0) + b"\0" + b"\0" + b"\x02c" + b"\x03/h" + b"\x02\x02t" + b"\x01"
    head += struct.pack(">i", 1000) + b"\0"
    struct_1 = b"\x01\x00\x09\x01" + struct.pack(">i", 45_000) + b"\x02" + b"\x02r" + b"\x01" + b"\0" + b"\0"
    values = {
        "null": head + b"\x01\x00\x01\x00",
        "given": head + b"\x01\x00" + bytes([len(struct_1) - 3]) + struct_1[3:],
        "missing": head + b"\0",
    }
    records = [(struct.pack(">h", 5) + text("g") + text(member), value) for member, value in values.items()]
    audited = run(batch(0, records))
    assert reasons(audited) == []
    found = {
        r["member_id"]: (r["uses_classic_protocol"], r["session_timeout_ms"]) for r in audited.rows("group_members")
    }
    assert found == {"null": (False, None), "given": (True, 45_000), "missing": (True, 0)}


def test_t60_a_rebalancing_group_has_its_last_stable_state():
    """A group between two rebalances has its last stable snapshot in the log: Stable is all that can be said."""
    member = text("m") + text("c") + text("/h") + struct.pack(">ii", 1, 1) + blob(b"") + blob(b"")
    value = struct.pack(">h", 2) + text("consumer") + struct.pack(">i", 1) + text("range") + text("m")
    value += struct.pack(">qi", T0, 1) + member
    (row,) = run(batch(0, [(group_key(), value)])).rows("groups")
    assert (row["state"], row["generation"]) == ("Stable", 1)


def test_t61_a_topic_id_counts_only_in_its_tag():
    plain_field = struct.pack(">hqi", 4, 7, -1) + b"\x01" + struct.pack(">q", T0) + TOPIC_ID + b"\0"
    in_tag = struct.pack(">hqi", 4, 8, -1) + b"\x01" + struct.pack(">q", T0) + b"\x01\x00\x10" + TOPIC_ID
    audited = run(batch(0, [(offset_key(topic="plain"), plain_field), (offset_key(topic="tag"), in_tag)]))
    assert {r["topic"]: r["topic_id"] for r in audited.rows("offset_commits")} == {
        "plain": None,
        "tag": "AAECAwQFBgcICQoLDA0ODw",
    }


def test_a_time_beyond_the_year_9999_counts_as_one_that_is_far_away():
    # A client may count in microseconds, or ask for a retention without an end.
    times = {"micros": (T0 * 1000, -1), "forever": (T0, 2**63 - 1), "past": (-(2**62), -1), "gone": (T0, -(2**62))}
    records = [
        (offset_key(topic=topic), struct.pack(">hq", 1, 5) + text("") + struct.pack(">qq", *both))
        for topic, both in times.items()
    ]
    audited = audit({f"__consumer_offsets-0/{0:020d}.log": batch(0, records)}, How(as_of=T0 + 30 * 86_400_000))
    for each in (audited, audited.rebuilt(How(as_of=T0 + 30 * 86_400_000))):
        assert {row["topic"]: row["reason"] for row in each.rows("offset_expiry")} == {
            "micros": "within_retention",
            "forever": "before_expire_timestamp",
            "past": "retention_passed",
            "gone": "expire_timestamp_passed",
        }
        years = {
            row["topic"]: (row["commit_timestamp"].year, row["expire_timestamp"] and row["expire_timestamp"].year)
            for row in each.rows("committed_offsets")
        }
        assert years == {"micros": (9999, None), "forever": (2023, 9999), "past": (1, None), "gone": (2023, 1)}


@pytest.mark.parametrize("number", range(1, 62), ids=lambda n: f"T{n}")
def test_every_case_of_the_semantics_has_a_test_named_for_it(number):
    assert number in named_cases()


@cache
def named_cases():
    """The numbers of cases that tests name: in their names, docstrings, comments and rows."""
    sources = Path(__file__).parents[1].rglob("*.py")
    found = [re.findall(r"\bT([1-9]\d?)\b|def test_t0?([1-9]\d?)_", source.read_text()) for source in sources]
    return {int(case or test) for each in found for case, test in each}
