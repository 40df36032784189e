"""Events of groups: the same however a log is cut and reduced, and those that another implementation found."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from kgroups_spark.records.columns import RecordColumns
from tests.chosen import one_of, some_of
from tests.logs.dense_logs import CONTROL, TRANSACTIONAL, dense_log, text
from tests.logs.event_logs import MINUTE, EventLog
from tests.logs.log_files import borders, random_cuts
from tests.messages.group_record_bytes import member, snapshot
from tests.nights.nights_here import How, audit, audit_nights
from tests.nights.replayed_logs import replayed
from tests.records.build import message

RELEASES = ("4.3", "4.0.0", "3.9", "3.7-java")
VERSIONS = ("4.3", "4.0.2", "3.9", "2.8", "1.1")
FOUND = Path(__file__).parent / "data" / "events.json.gz"
LEFT_OUT = ("offsets_partition", "event_index", "log_timestamp", "event_timestamp")
HOUR = 3_600_000


def events(audited):
    return audited.rows("group_events")


@pytest.mark.in_turn("events in nights")
@pytest.mark.parametrize("version", one_of(*RELEASES))
@pytest.mark.parametrize("seed", one_of(*range(12)))
def test_events_do_not_depend_on_nights_ranges_and_chunks(version, seed):
    files = EventLog(seed).files
    whole = replayed(files, How(version, retention_ms=HOUR))
    assert len(events(whole)) > 20
    how = How(version, retention_ms=HOUR, chunk_bytes=200)
    cut = audit_nights(files, random_cuts(files, np.random.default_rng(seed), nights=3, ranges=2), how)
    assert events(cut) == events(whole)
    assert cut.state() == whole.state()
    assert events(audit(files, How(version, retention_ms=HOUR))) == events(whole)
    assert events(cut.rebuilt(how)) == events(whole)
    keys = [(row["offsets_partition"], row["log_offset"], row["event_index"]) for row in events(whole)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("version", some_of(2, *VERSIONS))
@pytest.mark.parametrize("seed", [*some_of(3, *range(12)), 209])  # the last: a group goes and comes again in one act
def test_events_are_those_that_another_implementation_found(version, seed):
    """Without event_index and times. It compared the whole state before each record with that after it, in plain
    loops: tests/coordinator/events_twin.py at commit 411483fb."""
    with gzip.open(FOUND, "rt") as file:
        expected = json.load(file)[f"{version} {seed + 100}"]
    log = EventLog(seed + 100, retention_ms=HOUR)
    found = [
        {name: value for name, value in row.items() if value not in (None, "") and name not in LEFT_OUT}
        for row in events(audit(log.files, How(version, retention_ms=HOUR)))
    ]
    for row in found:
        if row["event"] == "assignment_changed":
            del row["value_before"], row["value_after"]
    assert in_order(found) == in_order(expected)


def in_order(rows):
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.in_turn("events of one time")
def test_a_log_of_one_time_has_the_same_events_however_it_is_cut(chosen):
    for seed in chosen.some(range(1, 40), 1):
        files = dense_log(seed, batches=40)
        cut = audit_nights(files, random_cuts(files, np.random.default_rng(seed), nights=3, ranges=2), How())
        whole = audit(files, How())
        assert events(cut) == events(cut.rebuilt()) == events(whole), seed
        assert cut.state() == whole.state(), seed


def test_without_batches_a_rebuild_reports_an_act_cut_in_two_by_an_audit_as_the_nights_did(monkeypatch):
    monkeypatch.setattr(RecordColumns, "offset_delta", property(lambda self: np.full(len(self), -1)))
    files = dense_log(1, batches=40)  # all of one time: one act
    cut = audit_nights(files, random_cuts(files, np.random.default_rng(1), nights=3, ranges=2), How())
    assert events(cut.rebuilt()) == events(cut) != events(audit(files, How()))


def of_members(generation, names):
    return snapshot([member(memberId=name) for name in names], 1, generation=generation, leader=names[0])


@pytest.mark.parametrize("magic", [0, 1])
def test_each_snapshot_of_a_log_of_message_format_0_or_1_has_its_events(magic):
    """Its messages do not show batches, and format 0 has no times."""
    snapshots = [("g", 1, "a"), ("h", 1, "b"), ("g", 2, "ac"), ("g", 3, "a")]
    data = b"".join(
        message(n, b"\0\2" + text(group), of_members(generation, members), magic=magic)
        for n, (group, generation, members) in enumerate(snapshots)
    )
    files = {"__consumer_offsets-0/00000000000000000000.log": data}
    whole = audit(files, How("2.8"))
    assert [(row["log_offset"], row["event"], row["member_id"]) for row in events(whole)] == [
        (0, "group_created", None),
        (0, "member_joined", "a"),
        (1, "group_created", None),
        (1, "member_joined", "b"),
        (2, "generation_changed", None),
        (2, "member_joined", "c"),
        (3, "generation_changed", None),
        (3, "member_left", "c"),
    ]
    places = borders(files, 0)[1:-1]
    assert events(audit_nights(files, {0: [[place] for place in places]}, How("2.8"))) == events(whole)


# Acts on one offset of a group, and the removals to be reported: the event, and the number of the act.
REMOVALS = (
    (["tombstone", "tombstone"], [("offset_removed", 0)]),
    (["value", "tombstone", "tombstone"], [("offset_removed", 1)]),
    (["value", "tombstone", "tombstone", "value", "tombstone"], [("offset_removed", 1), ("offset_removed", 4)]),
    (["pending", "tombstone", "tombstone"], []),
    (["pending", "tombstone", "abort", "tombstone"], []),
    (["pending", "abort", "tombstone", "tombstone"], [("offset_removed", 2)]),
    (["pending", "commit", "tombstone", "tombstone"], [("offset_removed", 2)]),
    (["group tombstone", "group tombstone"], [("group_removed", 0)]),
    (["group", "group tombstone", "group tombstone"], [("group_removed", 1)]),
    (["group tombstone", "group", "group tombstone"], [("group_removed", 0), ("group_removed", 2)]),
)


@pytest.mark.parametrize("version", one_of(*RELEASES))
def test_each_removal_is_reported_once(version):
    """Also if an audit ends after each act."""
    log, act_at, ends = EventLog(0, batches=0), dict[int, int](), []
    for number in range(max(len(acts) for acts, _ in REMOVALS)):
        for case, (acts, _) in enumerate(REMOVALS, start=1):
            if number < len(acts):
                act_at[log.offset] = number
                append(log, acts[number], f"g{case}", case)
        ends.append(borders(log.files, 0)[-1])
    whole = replayed(log.files, How(version))
    assert events(audit_nights(log.files, {0: [[end] for end in ends]}, How(version))) == events(whole)
    for case, (acts, expected) in enumerate(REMOVALS, start=1):
        wanted = {name for name, _ in expected} or {"offset_removed"}
        found = [row for row in events(whole) if row["group_id"] == f"g{case}" and row["event"] in wanted]
        assert [(row["event"], act_at[row["log_offset"]]) for row in found] == expected, acts


def append(log, act, group, producer):
    """Appends the batch of an act of REMOVALS."""
    log.now += MINUTE
    control = {"commit": b"\0\0\0\1", "abort": b"\0\0\0\0"}
    match act:
        case "value" | "pending":
            log.append([slot_value(log, group)], producer=producer if act == "pending" else -1)
        case "commit" | "abort":
            marker = (control[act], b"\0\0\0\0\0\4")
            log.append([marker], producer=producer, attributes=TRANSACTIONAL | CONTROL)
        case "tombstone":
            log.append([log.tombstone(group, "t", 0)])
        case "group":
            log.append([log.classic(group)])
        case "group tombstone":
            log.append([log.gone(2, group)])


def slot_value(log, group):
    """A value of topic t, partition 0."""
    while True:
        key, value = log.value(group)
        if key == log.tombstone(group, "t", 0)[0]:
            return key, value


def test_only_the_newest_removals_are_remembered(monkeypatch):
    monkeypatch.setattr("kgroups_spark.offsets.removals.REMEMBERED", 1)
    log = EventLog(0, batches=0)
    for partition in (0, 1, 1, 0):
        log.now += MINUTE
        log.append([log.tombstone("a", "t", partition)])
    reported = [row["partition"] for row in events(audit(log.files)) if row["event"] == "offset_removed"]
    assert reported == [0, 1, 0]
