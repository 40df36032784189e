"""For each finding logs that raise it, and logs as near to them as can be that do not. Nothing else is odd in them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.findings.logs import DAY, HOUR, MINUTE, SECOND, TOPIC_IDS, Log, classic_member
from tests.findings.record_bytes import blob

Row = dict[str, Any]
A, B = TOPIC_IDS["t"], TOPIC_IDS["u"]
WEEK = 7 * DAY


@dataclass(frozen=True)
class Case:
    """`odd`: what the finding says of the log, in its columns; None: nothing is odd."""

    finding: str
    name: str
    log: Log
    odd: dict[str, Any] | None = None
    how: dict[str, Any] = field(default_factory=dict)
    # Rows of the other coordinators' tables, and answers of a cluster.
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    # Other findings of the same fact.
    also: tuple[str, ...] = ()


def group(group_id: str = "g", **columns: Any) -> dict[str, Any]:
    return {"group_id": group_id, **columns}


def share_group(*members: str) -> Log:
    log = Log()
    for member in members:
        log.member("g", member, "t", record_type=10)
    log.group_epoch("g", 2, record_type=11)
    for member in members:
        log.target("g", member, 0, record_type=13)
    log.target_epoch("g", 2, record_type=12)
    for member in members:
        log.current("g", member, 0, record_type=14)
    return log


def share_batch(partition: int = 0, delivery_state: str = "available", attempts_left: int | None = None) -> Row:
    """A row of share_batches."""
    place = {"audit_id": 1, "state_partition": 0, "group_id": "g", "topic_id": TOPIC_IDS["t"], "partition": partition}
    place["topic"] = "t"
    numbers = {"first_offset": 3, "last_offset": 4, "delivery_count": 4}
    return place | numbers | {"delivery_state": delivery_state, "attempts_left": attempts_left}


def share_partition(init_state: str | None = "initialized", log_offset: int | None = 5) -> Row:
    """A row of share_partitions: start offset 7, last written when the log began."""
    place = {"audit_id": 1, "state_partition": 0, "group_id": "g", "topic_id": TOPIC_IDS["t"], "partition": 0}
    numbers = {"topic": "t", "start_offset": 7, "delivery_complete_count": 0, "log_offset": log_offset}
    return place | numbers | {"init_state": init_state, "log_timestamp": Log().now * 1000}


def window_to(last_offset: int, delivery_state: str = "acknowledged") -> Row:
    """A row of share_batches with the last offset."""
    return share_batch(0, delivery_state) | {"first_offset": last_offset, "last_offset": last_offset}


def locks(number: int, group_id: str | None = None) -> Row:
    """A row of cluster_facts: the number of records that a window may have, of the brokers or of a group."""
    name = "share.partition.max.record.locks"
    of_group = {"kind": "group_config", "name": name, "group_id": group_id, "broker": None}
    of_broker = {"kind": "broker_config", "name": f"group.{name}", "group_id": None, "broker": 1}
    return {"audit_id": 1, "value": str(number), "source": "set"} | (of_group if group_id else of_broker)


def end_of(log_end_offset: int | None, start: int | None = 0, **more: Any) -> Row:
    """A row of topic_offsets, seen an hour after the log began."""
    place = {"audit_id": 1, "topic": "t", "partition": 0, "log_start_offset": start, "log_end_offset": log_end_offset}
    return place | {"status": "ok", "seen_at": Log().later(HOUR).moment, **more}


def outside(start: int | None, end: int | None, **more: Any) -> dict[str, list[Row]]:
    """The tables of a live audit that saw a log of these ends beside a committed offset of 5."""
    return {"topic_offsets": [end_of(end, start, **more)]}


def transaction(state: str = "Ongoing", timeout_ms: int = MINUTE, *, state_partition: int = 0) -> dict[str, list[Row]]:
    """A row of transactional_ids, of a transaction that began with the log."""
    row = {"audit_id": 1, "state_partition": state_partition, "transactional_id": "x", "producer_id": 7}
    row["log_offset"] = 5
    return {"transactional_ids": [row | {"state": state, "timeout_ms": timeout_ms, "start_timestamp": Log().moment}]}


def offsets_of_t() -> Log:
    """Offsets of t-0 and t-1, committed before the group had members."""
    return Log().commit("g", topic_id=TOPIC_IDS["t"]).commit("g", partition=1, topic_id=TOPIC_IDS["t"])


def assigned_to(*partitions: int, topics: tuple[str, ...] = ("t",), regex: str = "") -> Log:
    """A Stable group whose only member has these partitions of t, with offsets of t-0 and t-1."""
    return offsets_of_t().consumer_group("g", a=partitions).member("g", "a", *topics, subscribedTopicRegex=regex)


def large_assignment(size_of_a_name: int) -> Log:
    """28 members with names of that size and a partition each."""
    return Log().consumer_group("g", **{f"{n:02}".rjust(size_of_a_name, "x"): (n,) for n in range(28)})


def emptied_share_group() -> Log:
    return share_group("a").gone(14, "g", "a").gone(13, "g", "a").gone(10, "g", "a")


def went_on(generation: int) -> Log:
    """A group that has had a member, and is Empty since that generation."""
    return Log().classic("g", classic_member("a", 0)).commit("g").classic("g", generation=generation)


def expired(group: str = "g") -> Log:
    """An offset of 9 expired in an Empty group that has had members."""
    log = Log().classic(group, classic_member("a", 0)).commit(group, offset=9).classic(group)
    return log.later(WEEK + MINUTE).remove_offset(group)


def taken_over(*names: str | None, every: int = MINUTE, member: str | None = None) -> Log:
    """Static members, each of which joins as another member with each record of its name."""
    log = Log()
    joined: dict[str | None, Any] = {}
    for number, name in enumerate(names):
        joined[name] = classic_member(member or f"m{number}", groupInstanceId=name, clientHost=f"/10.0.0.{number % 2}")
        log.classic("g", *joined.values()).later(every)
    return log


def left(log: Log, member: str) -> Log:
    return log.gone(8, "g", member).gone(7, "g", member).gone(5, "g", member)


def two_members() -> Log:
    return Log().consumer_group("g", a=(0,), b=(1,))


def static_members(*names: str) -> Log:
    log = Log()
    for number, name in enumerate(names):
        log.member("g", f"m{number}", "t", instanceId=name)
    return log


def large(user_data_bytes: int) -> Log:
    subscription = blob("ConsumerProtocolSubscription", {"topics": ["t"], "userData": b"x" * user_data_bytes})
    return Log().classic("g", classic_member("a", 0, subscription=subscription))


def many_groups(names: list[str]) -> Log:
    log = Log()
    for name in names:
        log.commit(name)
    return log


def groups_with_members(names: list[str]) -> Log:
    log = Log()
    for name in names:
        log.classic(name, classic_member("a", 0))
    return log


def subscribed_by(subscription: bytes, **fields: Any) -> Log:
    return Log().classic("g", classic_member("a", 0, subscription=subscription), **fields)


def behind() -> Log:
    """Member a is at epoch 2, the assignment at 3."""
    return Log().consumer_group("g", a=(0,)).group_epoch("g", 3).target_epoch("g", 3)


def matching(*topics: str) -> Log:
    log = Log().member("g", "a", subscribedTopicRegex="orders-.*").group_epoch("g", 2)
    return log.regex("g", "orders-.*", *topics)


def streams_group(*tasks_of_b: int, role: str = "activeTasks") -> Log:
    log = Log().group_epoch("g", 2, record_type=17)
    for member, tasks in (("a", {"activeTasks": (0,)}), ("b", {role: tasks_of_b})):
        log.member("g", member, record_type=19, topologyEpoch=1, processId=member, rebalanceTimeoutMs=300_000)
        log.current_tasks("g", member, **tasks)
    return log


def before(start: int, end: int, offset: int = 5, now: tuple[int, int] = (0, 100), **more: Any) -> dict[str, list[Row]]:
    """The tables of two live audits, an hour apart. `start`, `end`: the topic's log at the first one; the group had
    committed `offset`. `now`: the log at the second one."""
    place = {"audit_id": 1, "group_id": "g", "topic": "t", "partition": 0, "log_offset": 0, "decided_by": 0}
    judged = {"as_of": Log().moment, "retention_ms": 1, "decision": "keep", "reason": "subscribed"}
    then = end_of(end, start, audit_id=0, **{"seen_at": Log().moment, **more})
    offsets = [place | judged | {"offsets_partition": 0, "committed_offset": offset}]
    return {"topic_offsets": [then, end_of(now[1], now[0])], "previous_offset_expiry": offsets}


def fact(name: str | None, value: str | None = None, group_id: str | None = None, audit_id: int = 1) -> Row:
    kind = "broker_config" if group_id is None else "group_config"
    return {"audit_id": audit_id, "kind": kind, "name": name, "value": value, "source": "set", "group_id": group_id}


def of_size(members: int) -> Log:
    return Log().consumer_group("g", **{f"m{number}": (number,) for number in range(members)})


owned = Log().classic("g", classic_member("a", 0)).commit("g")
emptied = Log().classic("g", classic_member("a", 0)).commit("g").classic("g")
SIZE = "group.consumer.max.size"
subscribed_to_u = classic_member("a", 0, topics=("u",), assignment=b"\0\1\0")
in_turn = static_members("i", "j")
for _ in range(10):
    in_turn.current("g", "m0", 0).current("g", "m1", 1)

CASES = [
    Case("offset_below_log_start", "deleted_before_it_was_read", Log().commit("g"),
         group(topic="t", partition=0, log_offset=0), tables=outside(6, 100), also=("records_lost",)),
    Case("offset_below_log_start", "nothing_is_left", Log().commit("g"), group(), tables=outside(6, 6),
         also=("records_lost",)),
    Case("offset_below_log_start", "at_the_start", Log().commit("g"), tables=outside(5, 100)),
    Case("offset_below_log_start", "ends_unknown", Log().commit("g"), tables=outside(None, None, status="unavailable")),
    Case("offset_below_log_start", "another_partition", Log().commit("g"), tables=outside(6, 100, partition=1)),
    Case("offset_below_log_start", "as_an_earlier_audit_saw_it", Log().commit("g"), tables=outside(6, 100, audit_id=0)),
    Case("offset_below_log_start", "committed_since", Log().commit("g"),
         tables=outside(6, 100, seen_at=Log().later(-1).moment)),
    Case("records_lost", "deleted_since", Log().commit("g"), group(topic="t", partition=0, log_offset=0),
         tables=before(0, 100, now=(7, 120)), also=("offset_below_log_start",)),
    Case("records_lost", "at_the_start", Log().commit("g"), tables=before(0, 100, now=(5, 100), offset=4),
         also=("nearing_log_start",)),
    Case("records_lost", "lost_before", Log().commit("g"), tables=before(7, 100, now=(7, 120)),
         also=("offset_below_log_start",)),
    Case("not_progressing", "its_owner_stands_still", owned, group(topic="t", partition=0, log_offset=1),
         tables=before(0, 50)),
    Case("not_progressing", "nothing_arrived", owned, tables=before(0, 100)),
    Case("not_progressing", "everything_is_read", owned, tables=before(0, 4, now=(0, 5))),
    Case("not_progressing", "it_moved", owned, tables=before(0, 50, offset=4)),
    Case("not_progressing", "nobody_owns_it", Log().commit("g").classic("g", classic_member("a", 1)),
         tables=before(0, 50), also=("partition_assigned_to_nobody",)),
    Case("not_progressing", "five_minutes_ago", owned,
         tables=before(0, 50, seen_at=Log().later(HOUR - 5 * MINUTE).moment)),
    Case("not_progressing", "another_topic_then", owned, tables=before(0, 50, topic_id=A)),
    Case("nobody_reads", "no_members", emptied, group(topic="t", partition=0, log_offset=1), tables=before(0, 50)),
    Case("nobody_reads", "nothing_arrived", emptied, tables=before(0, 100)),
    Case("nobody_reads", "committed_since", emptied, tables=before(0, 50, offset=4)),
    Case("nobody_reads", "everything_is_read", emptied, tables=before(0, 4, now=(0, 5))),
    Case("nobody_reads", "assigned_by_its_consumers", Log().commit("g"), tables=before(0, 50)),
    Case("nearing_log_start", "loses_ground", Log().commit("g"), group(topic="t", partition=0, log_offset=0),
         tables=before(0, 90, now=(2, 100))),
    Case("nearing_log_start", "gains_ground", Log().commit("g"), tables=before(0, 90, offset=1, now=(2, 100))),
    Case("nearing_log_start", "nothing_is_deleted", Log().commit("g"), tables=before(0, 90, offset=5)),
    Case("nearing_log_start", "most_is_read", Log().commit("g"), tables=before(0, 5, now=(2, 16))),
    Case("topic_gone", "with_committed_offsets", Log().commit("g"), group(topic="t"),
         tables=outside(None, None, status="unknown_topic")),
    Case("topic_gone", "members_subscribe", Log().classic("g", subscribed_to_u), group(topic="u"),
         tables=outside(None, None, status="unknown_topic", topic="u")),
    Case("topic_gone", "one_partition_less", Log().commit("g"),
         tables={"topic_offsets": [end_of(None, None, status="unknown_topic"), end_of(5, partition=1)]}),
    Case("topic_gone", "may_not_be_seen", Log().commit("g"), tables=outside(None, None, status="not_authorized")),
    Case("topic_gone", "nobody_answered", Log().commit("g"), tables=outside(None, None, status="unavailable")),
    Case("topic_gone", "read_by_nobody", Log().commit("g"),
         tables=outside(None, None, status="unknown_topic", topic="u")),
    Case("topic_gone", "as_an_earlier_audit_saw_it", Log().commit("g"),
         tables=outside(None, None, status="unknown_topic", audit_id=0)),
    Case("group_near_size_limit", "nine_of_ten", of_size(9), group(), tables={"cluster_facts": [fact(SIZE, "10")]}),
    Case("group_near_size_limit", "eight_of_nine", of_size(8), tables={"cluster_facts": [fact(SIZE, "9")]}),
    Case("group_near_size_limit", "limit_of_other_groups", of_size(9),
         tables={"cluster_facts": [fact("group.max.size", "9"), fact("group.share.max.size", "9")]}),
    Case("group_near_size_limit", "limit_of_then", of_size(9), tables={"cluster_facts": [fact(SIZE, "9", audit_id=0)]}),
    Case("config_without_group", "no_such_group", Log().commit("h"), group(),
         tables={"cluster_facts": [fact("consumer.session.timeout.ms", "1", "g")]}),
    Case("config_without_group", "the_group_is_there", Log().commit("g"),
         tables={"cluster_facts": [fact("consumer.session.timeout.ms", "1", "g")]}),
    Case("config_without_group", "could_not_be_read", Log().commit("h"),
         tables={"cluster_facts": [fact(None, None, "g")]}),
    Case("offset_beyond_log_end", "of_another_cluster", Log().commit("g"),
         group(topic="t", partition=0, log_offset=0), tables=outside(0, 4)),
    Case("offset_beyond_log_end", "of_an_empty_topic", Log().commit("g"), group(), tables=outside(0, 0)),
    Case("offset_beyond_log_end", "at_the_end", Log().commit("g"), tables=outside(0, 5)),
    Case("offset_beyond_log_end", "at_the_end_of_an_empty_log", Log().commit("g"), tables=outside(5, 5)),
    Case("offset_beyond_log_end", "ends_unknown", Log().commit("g"), tables=outside(None, None, status="unavailable")),
    Case("offset_beyond_log_end", "as_an_earlier_audit_saw_it", Log().commit("g"), tables=outside(0, 4, audit_id=0)),
    Case("offset_beyond_log_end", "committed_since", Log().commit("g"),
         tables=outside(0, 4, seen_at=Log().later(-1).moment)),
    Case("negative_offset", "minus_one", Log().commit("g").commit("g", offset=-1),
         group(topic="t", partition=0, log_offset=1), tables=outside(0, 4)),
    Case("negative_offset", "in_a_group_without_members",
         Log().classic("g", classic_member("a", 0)).commit("g").classic("g").commit("g", offset=-1001), group()),
    Case("negative_offset", "zero", Log().commit("g", offset=0), tables=outside(0, 4)),
    Case("negative_offset", "another_one_since", Log().classic("g", classic_member("a", 0)).classic("g")
         .commit("g", offset=-1).commit("g")),
    Case("offset_rewound", "lower", Log().commit("g", offset=9).commit("g"),
         group(topic="t", partition=0, log_offset=1)),
    Case("offset_rewound", "in_a_transaction",
         Log().commit("g", offset=9).commit("g", producer=7).end(7), group(topic="t", log_offset=2)),
    Case("offset_rewound", "from_its_start_after_it_expired", expired().commit("g"), group(log_offset=4)),
    Case("offset_rewound", "after_it_was_deleted",
         Log().classic("g", subscribed_to_u).commit("g", offset=9).commit("h", offset=9)
         .remove_offset("g").commit("g"), group(log_offset=4)),
    Case("offset_rewound", "the_same", Log().commit("g").commit("g")),
    Case("offset_rewound", "aborted", Log().commit("g", offset=9).commit("g", producer=7).end(7, commit=False)),
    Case("offset_rewound", "topic_created_again", Log().commit("g", offset=9, topic_id=A).commit("g", topic_id=B)),
    Case("offset_rewound", "topic_deleted_before", Log().classic("g", classic_member("a", 0)).commit("g", offset=9)
         .remove_offset("g").commit("g")),
    Case("offset_rewound", "removed_for_an_unknown_reason",
         Log().commit("g", offset=9).remove_offset("g").commit("g")),
    Case("offset_rewound", "after_it_was_moved_ahead",
         Log().classic("g", classic_member("a", 0)).commit("g").classic("g").commit("g", offset=9).commit("g"),
         group(log_offset=4)),
    Case("offset_rewound", "before_it_was_moved_ahead_again",
         Log().classic("g", classic_member("a", 0)).commit("g", offset=9).classic("g")
         .commit("g").commit("g", offset=9), group(log_offset=3)),
    Case("offset_skipped", "moved_while_the_group_was_empty",
         Log().classic("g", classic_member("a", 0)).commit("g").classic("g").commit("g", offset=9),
         group(topic="t", partition=0, log_offset=3)),
    Case("offset_skipped", "read_on_by_a_member_whose_records_were_compacted_away",
         went_on(2).commit("g", offset=9).classic("g", generation=4)),
    Case("offset_skipped", "moved_before_the_next_generation_has_a_member",
         went_on(2).commit("g", offset=9).classic("g", classic_member("a", 0), generation=3), group(log_offset=3)),
    Case("offset_skipped", "read_on_by_a_member_of_the_generation_between",
         went_on(2).commit("g", offset=9).classic("g", classic_member("a", 0), generation=4)),
    Case("offset_skipped", "moved_before_a_member_came_and_went",
         went_on(2).commit("g", offset=9).classic("g", generation=3).classic("g", generation=5), group(log_offset=3)),
    Case("offset_skipped", "moved_after_a_member_came_and_went",
         went_on(2).classic("g", generation=4).commit("g", offset=9), group(log_offset=4)),
    Case("offset_skipped", "from_the_end_after_it_expired", expired().commit("g", offset=99), group(log_offset=4)),
    Case("offset_skipped", "read_on_by_a_member",
         Log().classic("g", classic_member("a", 0)).commit("g").commit("g", offset=9)),
    Case("offset_skipped", "assigned_by_its_consumers", Log().commit("g").commit("g", offset=9)),
    Case("offset_skipped", "read_on_after_it_expired",
         Log().commit("g", offset=9).later(WEEK + MINUTE).remove_offset("g").commit("g", offset=99)),
    Case("offset_skipped", "read_on_after_it_was_deleted",
         Log().classic("g", subscribed_to_u).commit("g", offset=9).commit("h", offset=9)
         .remove_offset("g").commit("g", offset=99)),
    Case("offset_skipped", "at_the_same_offset_after_it_expired", expired().commit("g", offset=9)),
    Case("contested_static_member", "five_times_in_ten_minutes", taken_over(*"iiiiii", every=2 * MINUTE),
         group(member_id="m5", log_offset=5)),
    Case("contested_static_member", "four_times", taken_over(*"iiiii", every=SECOND)),
    Case("contested_static_member", "five_times_in_a_longer_time", taken_over(*"iiiiii", every=3 * MINUTE)),
    Case("contested_static_member", "each_day", taken_over(*"iiiiiiiiii", every=DAY)),
    Case("contested_static_member", "one_restart_each", taken_over(*"abcdefghijabcdefghij", every=SECOND)),
    Case("contested_static_member", "rebalances", taken_over(*"iiiiiiiiii", every=SECOND, member="m")),
    Case("contested_static_member", "two_members_in_turn", in_turn),
    Case("contested_static_member", "dynamic_members", taken_over(*[None] * 10, every=SECOND)),
    Case("load_would_fail", "member_removed_with_its_assignment", two_members().gone(5, "g", "a"),
         group(offsets_partition=0, log_offset=8)),
    Case("load_would_fail", "member_removed_after_its_assignment", left(two_members(), "a")),
    Case("group_in_wrong_partition", "name_hashes_elsewhere", Log().commit("a"), group("a"),
         {"offsets_partitions": 50}),
    Case("group_in_wrong_partition", "name_hashes_here", Log().commit("polygenelubricants"), None,
         {"offsets_partitions": 50}),
    Case("orphaned_offsets", "group_removed_alone", Log().commit("g").gone(2, "g"), group(topic="t", log_offset=0)),
    Case("orphaned_offsets", "offsets_removed_first", Log().commit("g").remove_offset("g").gone(2, "g")),
    Case("partition_assigned_twice", "consumer_group", two_members().current("g", "b", 0, 1, epoch=3),
         group(partition=0, member_id="b")),
    Case("partition_assigned_twice", "still_to_give_up", two_members().current("g", "b", 1, revoking=(0,), epoch=3),
         group(partition=0, member_id="b")),
    Case("partition_assigned_twice", "classic", Log().classic("g", classic_member("a", 0, 1), classic_member("b", 1)),
         group(topic="t", partition=1)),
    Case("partition_assigned_twice", "streams", streams_group(0), group(topic=None, partition=0)),
    Case("partition_assigned_twice", "streams_standby", streams_group(0, role="standbyTasks")),
    Case("partition_assigned_twice", "one_each", two_members()),
    Case("partition_assigned_twice", "handed_over", two_members().current("g", "a").current("g", "b", 0, 1, epoch=3)),
    Case("partition_assigned_twice", "classic_one_each",
         Log().classic("g", classic_member("a", 0), classic_member("b", 1))),
    Case("partition_assigned_twice", "share_group", share_group("a", "b")),
    Case("duplicate_static_member", "same_name", static_members("i", "i"), group(member_id="m1")),
    Case("duplicate_static_member", "other_name", static_members("i", "j")),
    Case("duplicate_static_member", "no_names", static_members()),
    Case("hanging_transaction", "longer_than_it_may",
         Log().commit("g", producer=7).tick(15 * MINUTE + 1), group(producer_id=7, log_offset=0)),
    Case("hanging_transaction", "idempotent_but_in_no_transaction",
         Log().commit("g", producer=7, in_transaction=False).tick(15 * MINUTE + 1), group(producer_id=7)),
    Case("hanging_transaction", "as_long_as_it_may", Log().commit("g", producer=7).tick(15 * MINUTE)),
    Case("hanging_transaction", "ended", Log().commit("g", producer=7).later(HOUR).end(7)),
    Case("transaction_past_timeout", "a_minute_too_long", Log().tick(2 * MINUTE + 1),
         {"producer_id": 7, "since": Log().moment}, tables=transaction()),
    Case("transaction_past_timeout", "not_yet_aborted", Log().tick(2 * MINUTE), tables=transaction()),
    Case("transaction_past_timeout", "aborted", Log().tick(HOUR), tables=transaction("PrepareAbort")),
    Case("transaction_past_timeout", "two_phase", Log().tick(30 * DAY), tables=transaction(timeout_ms=2**31 - 1)),
    Case("transaction_past_timeout", "partition_not_read", Log().tick(HOUR), tables=transaction(state_partition=1)),
    Case("partition_assigned_to_nobody", "left_out", assigned_to(0), group(topic="t", partition=1, log_offset=1)),
    Case("partition_assigned_to_nobody", "left_out_of_an_expression",
         assigned_to(0, topics=(), regex="t.*").regex("g", "t.*", "t"), group(topic="t", partition=1)),
    Case("partition_assigned_to_nobody", "left_out_of_a_classic_group",
         offsets_of_t().classic("g", classic_member("a", 0)),
         group(topic="t", partition=1)),
    Case("partition_assigned_to_nobody", "assigned", assigned_to(0, 1)),
    Case("partition_assigned_to_nobody", "not_subscribed", assigned_to(0, topics=("u",))),
    Case("partition_assigned_to_nobody", "rebalancing", assigned_to(0).group_epoch("g", 3)),
    Case("partition_assigned_to_nobody", "no_such_partition", assigned_to(0),
         tables={"topic_offsets": [end_of(20), end_of(None, None, partition=1, status="unknown_partition")]}),
    Case("partition_assigned_to_nobody", "connect",
         offsets_of_t().classic("g", classic_member("a", 0), protocol_type="connect")),
    Case("assignment_near_limit", "as_near_as_that", large_assignment(29_910), group()),
    Case("assignment_near_limit", "a_little_less", large_assignment(29_909)),
    Case("clean_up_fails", "another_groups_offsets", share_group("a").commit("g").commit("h"), group(),
         {"release": "4.4"}),
    Case("clean_up_fails", "offsets_of_another_group_alone", share_group("a").commit("h"), None, {"release": "4.4"}),
    Case("offsets_of_share_group", "where_clean_ups_pass_over_it", share_group("a").commit("g").commit("h"), group()),
    Case("offsets_of_share_group", "committed", share_group("a").commit("g"), group()),
    Case("offsets_of_share_group", "of_another_group", share_group("a").commit("h")),
    Case("share_delivery_near_limit", "one_attempt_left", share_group("a"), group(topic="t", partition=1),
         tables={"share_batches": [share_batch(attempts_left=3), share_batch(1, attempts_left=1)],
                 "share_partitions": [share_partition()]}),
    Case("share_delivery_near_limit", "others_are_done", share_group("a"),
         tables={"share_batches": [share_batch(attempts_left=2), share_batch(1, "archived"),
                                   share_batch(2, "acknowledged")]}),
    Case("share_delivery_near_limit", "limit_unknown", share_group("a"), tables={"share_batches": [share_batch()]}),
    Case("share_delivery_near_limit", "no_records_between_the_offsets", share_group("a"),
         tables={"share_batches": [share_batch(attempts_left=1) | {"last_offset": -(2**63)}]}),
    Case("share_partition_not_progressing", "records_wait", share_group("a").tick(2 * HOUR).commit("x"),
         group(topic="t", partition=0),
         tables={"share_partitions": [share_partition()], "topic_offsets": [end_of(20)]}),
    Case("share_partition_not_progressing", "nothing_waits", share_group("a").tick(2 * HOUR).commit("x"),
         tables={"share_partitions": [share_partition()], "topic_offsets": [end_of(7)]}),
    Case("share_partition_not_progressing", "the_topic_was_created_again", share_group("a").tick(2 * HOUR).commit("x"),
         tables={"share_partitions": [share_partition()], "topic_offsets": [end_of(20, topic_id=TOPIC_IDS["u"])]}),
    Case("share_partition_not_progressing", "not_long_yet", share_group("a").tick(HOUR // 2).commit("x"),
         tables={"share_partitions": [share_partition()], "topic_offsets": [end_of(20)]}),
    Case("share_window_full", "at_the_brokers_limit", share_group("a"), group(topic="t", partition=0),
         tables={"share_partitions": [share_partition()], "share_batches": [window_to(10)],
                 "cluster_facts": [locks(4)]}),
    Case("share_window_full", "at_the_groups_own_limit", share_group("a"), group(topic="t", partition=0),
         tables={"share_partitions": [share_partition()], "share_batches": [window_to(10)],
                 "cluster_facts": [locks(9), locks(4, "g")]}),
    Case("share_window_full", "one_less", share_group("a"),
         tables={"share_partitions": [share_partition()], "share_batches": [window_to(9)],
                 "cluster_facts": [locks(4)]}),
    Case("share_window_full", "some_can_be_fetched_again", share_group("a"),
         tables={"share_partitions": [share_partition()], "share_batches": [window_to(10), window_to(9, "available")],
                 "cluster_facts": [locks(4)]}),
    Case("share_window_full", "the_limit_of_another_group", share_group("a"),
         tables={"share_partitions": [share_partition()], "share_batches": [window_to(10)],
                 "cluster_facts": [locks(4, "h")]}, also=("config_without_group",)),
    Case("share_records_archiving", "for_two_hours", share_group("a").tick(2 * HOUR).commit("x"),
         group(topic="t", partition=0),
         tables={"share_partitions": [share_partition()], "share_batches": [share_batch(0, "archiving")]}),
    Case("share_records_archiving", "not_long_yet", share_group("a").tick(HOUR // 2).commit("x"),
         tables={"share_partitions": [share_partition()], "share_batches": [share_batch(0, "archiving")]}),
    Case("share_records_archiving", "archived", share_group("a").tick(2 * HOUR).commit("x"),
         tables={"share_partitions": [share_partition()], "share_batches": [share_batch(0, "archived")]}),
    Case("share_state_without_group", "the_group_is_gone", Log().commit("x"), group(topic="t", partition=0),
         tables={"share_partitions": [share_partition(init_state=None)]}),
    Case("share_state_without_group", "the_group_is_there", share_group("a"),
         tables={"share_partitions": [share_partition(init_state=None)]}),
    Case("share_state_without_group", "listed_alone", Log().commit("x"),
         tables={"share_partitions": [share_partition(log_offset=None)]}),
    Case("unreadable_subscription", "cut_off", subscribed_by(b"\0\1\0\0"), group(member_id="a")),
    Case("unreadable_subscription", "of_a_later_version",
         subscribed_by(b"\0\x09" + blob("ConsumerProtocolSubscription", {"topics": ["t"], "userData": None})[2:])),
    Case("unreadable_subscription", "of_connect", subscribed_by(b"\0\1\0\0", protocol_type="connect")),
    Case("ghost_member", "assigned_after_it_was_removed", left(two_members(), "a").current("g", "a", 0),
         group(member_id="a")),
    Case("ghost_member", "static_member_away", static_members("i").current("g", "m0", epoch=-2).tick(HOUR),
         group(member_id="m0", log_offset=1)),
    Case("ghost_member", "removed", left(two_members(), "a")),
    Case("ghost_member", "static_member_not_so_long_away",
         static_members("i").current("g", "m0", epoch=-2).tick(HOUR - 1)),
    Case("partition_targeted_twice", "meant_for_both", two_members().target("g", "b", 0, 1),
         group(partition=0, member_id="b")),
    Case("partition_targeted_twice", "moved", two_members().target("g", "a").target("g", "b", 0, 1)),
    Case("partition_targeted_twice", "share_group", share_group("a", "b")),
    Case("target_for_unknown_member", "no_such_member", two_members().target("g", "x", 2),
         group(member_id="x", log_offset=8)),
    Case("target_for_unknown_member", "member_comes_later", two_members().target("g", "x", 2).member("g", "x", "t")),
    Case("target_for_unknown_member", "classic_since",
         two_members().target("g", "x", 2).classic("g", classic_member("a", 0))),
    Case("target_for_unknown_member", "taken_back", two_members().target("g", "x", 2).gone(7, "g", "x")),
    Case("member_not_reconciled", "behind", behind().tick(10 * MINUTE), group(member_id="a")),
    Case("member_not_reconciled", "does_not_give_up",
         behind().current("g", "a", epoch=2, state=1, revoking=(0,)).tick(10 * MINUTE), group(member_id="a")),
    Case("member_not_reconciled", "not_so_long_behind", behind().tick(10 * MINUTE - 1)),
    Case("member_not_reconciled", "caught_up", behind().current("g", "a", 0, epoch=3).tick(HOUR)),
    Case("group_record_near_limit", "838_kB", large(838_900), group(log_offset=0)),
    Case("group_record_near_limit", "838_kB_and_no_more", large(838_600)),
    Case("group_record_near_limit", "smaller_since", large(900_000).classic("g", classic_member("a", 0))),
    Case("two_open_producers", "same_partition", Log().commit("g", producer=7).commit("g", producer=8),
         group(topic="t", partition=0, producer_id=8, log_offset=1)),
    Case("two_open_producers", "a_partition_each",
         Log().commit("g", producer=7).commit("g", partition=1, producer=8)),
    Case("two_open_producers", "one_after_the_other",
         Log().commit("g", producer=7).end(7).commit("g", producer=8)),
    Case("committed_by_non_owner", "classic", Log().classic("g", classic_member("a", 0)).commit("g", partition=1),
         group(topic="t", partition=1, log_offset=1), also=("partition_assigned_to_nobody",)),
    Case("committed_by_non_owner", "consumer_group", two_members().commit("g", partition=2, topic_id=A),
         group(topic="t", partition=2), also=("partition_assigned_to_nobody",)),
    Case("committed_by_non_owner", "topic_not_known",
         two_members().commit("g", partition=2)),
    Case("committed_by_non_owner", "by_its_owner", Log().classic("g", classic_member("a", 0)).commit("g")),
    Case("committed_by_non_owner", "before_the_rebalance",
         Log().commit("g", partition=1).classic("g", classic_member("a", 0)), also=("partition_assigned_to_nobody",)),
    Case("committed_by_non_owner", "empty_group", Log().classic("g").commit("g", partition=1)),
    Case("committed_by_non_owner", "assignment_not_known",
         Log().classic("g", classic_member("a", 0, assignment=b"\0\1\0")).commit("g", partition=1)),
    Case("commit_time_skew", "behind", Log().commit("g", committed_ago=10 * MINUTE + 1).commit("g"),
         group(topic="t", partition=0, log_offset=0)),
    Case("commit_time_skew", "ahead", Log().commit("g", committed_ago=-10 * MINUTE - 1), group()),
    Case("commit_time_skew", "a_little", Log().commit("g", committed_ago=10 * MINUTE)),
    Case("lost_when_emptied", "after_the_retention", two_members().commit("g").tick(WEEK), group(topic="t")),
    Case("lost_when_emptied", "within_the_retention", two_members().commit("g").tick(WEEK - 1)),
    Case("lost_when_emptied", "classic", Log().classic("g", classic_member("a", 0)).commit("g").tick(WEEK)),
    Case("expiry_overdue", "for_an_hour", Log().commit("g").tick(WEEK + HOUR), group(topic="t")),
    Case("expiry_overdue", "for_less", Log().commit("g").tick(WEEK + HOUR - 1)),
    Case("expiry_overdue", "removed", Log().commit("g").later(WEEK + HOUR).remove_offset("g")),
    Case("topic_recreated", "another_partition_only",
         Log().commit("g", topic_id=A).later(HOUR).commit("g", partition=1, topic_id=B),
         group(topic="t", log_offset=0)),
    Case("topic_recreated", "committed_anew", Log().commit("g", topic_id=A).later(HOUR).commit("g", topic_id=B)),
    Case("topic_recreated", "another_topic",
         Log().commit("g", topic_id=A).later(HOUR).commit("g", topic="u", topic_id=B)),
    Case("commit_storm", "ten_a_second", Log().commit("g", times=36_000), group()),
    Case("commit_storm", "in_two_hours", Log().commit("g", times=35_999).later(HOUR).commit("g")),
    Case("commit_storm", "of_many_partitions", many := Log()),
    Case("regex_matches_nothing", "no_topic", matching(), group(member_id="a")),
    Case("regex_matches_nothing", "a_topic", matching("orders-1")),
    Case("regex_matches_nothing", "not_resolved", Log().member("g", "a", subscribedTopicRegex="orders-.*")),
    Case("mixed_commits", "beside_each_other", Log().commit("g", producer=7).end(7).commit("g", times=2),
         group(topic="t", partition=0, log_offset=3)),
    Case("mixed_commits", "reset_once", Log().commit("g", producer=7).end(7).commit("g")),
    Case("mixed_commits", "another_partition",
         Log().commit("g", producer=7).end(7).commit("g", partition=1, times=2)),
    Case("idle_share_group", "for_the_retention", emptied_share_group().tick(WEEK), group()),
    Case("idle_share_group", "not_so_long", emptied_share_group().tick(WEEK - 1)),
    Case("idle_share_group", "with_a_member", share_group("a").tick(WEEK)),
    Case("throwaway_group", "uuids", many_groups([f"app-{uuid.UUID(int=n)}" for n in range(10)]),
         group(f"app-{uuid.UUID(int=0)}")),
    Case("throwaway_group", "console", many_groups([f"console-consumer-{n}" for n in range(40_009, 40_019)]),
         group("console-consumer-40009")),
    Case("throwaway_group", "counted_past_99", many_groups([f"job-{n}" for n in range(91, 101)]), group("job-100")),
    Case("throwaway_group", "with_members", groups_with_members([f"app-{uuid.UUID(int=n)}" for n in range(10)])),
    Case("throwaway_group", "nine", many_groups([f"app-{uuid.UUID(int=n)}" for n in range(9)])),
    Case("throwaway_group", "chosen_names", many_groups([f"app-{n}" for n in range(10)])),
]  # fmt: skip

for _partition in range(10):
    many.commit("g", partition=_partition, times=3_600)
