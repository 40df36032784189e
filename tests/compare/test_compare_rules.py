"""Every rule in which two releases differ, alone and in pairs: each difference names the rule that makes it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

from kgroups_spark.audit.comparison import Side, compare
from kgroups_spark.audit.differences import (
    EXPIRY_RULES,
    GROUP,
    GROUP_EXPIRY,
    LOAD,
    OTHER_GROUP,
    OTHER_OFFSETS,
    RULES,
    WITHOUT_LOAD,
    Difference,
    with_causes,
)
from kgroups_spark.coordinator.releases import (
    CONSUMER,
    OFFSET_AND_CLASSIC,
    TYPES_43,
    OpenTransactionRule,
    expiry_rules,
    release,
)
from kgroups_spark.lake.lake import Lake
from tests.chosen import Chosen, some_of
from tests.findings.logs import CONTROL, DAY, TRANSACTIONAL, Log, classic_member
from tests.findings.logs import START as NOW
from tests.findings.record_bytes import record
from tests.logs.log_files import read_zip, segments_of
from tests.nights.nights_here import Audited, How, audit
from tests.protocol.fake_delta import in_memory
from tests.recorded_logs import CORPORA

# These end loads, so the load's own row says at which record and why; tests/coordinator/test_release_differences.py.
ENDS_LOADS = {
    "skips_unknown_types",
    "unreplayable_types",
    "legacy_offset_commit_version",
    "offset_commit_version",
    "group_metadata_version",
    "repeated_member_id_fails",
    "repeated_instance_id_fails",
    "damaged_subscription_fails",
    "replaces_group_before_parsing",
    "simple_group_becomes",
    "creates_group",
    "creates_member",
    "needs_group",
    "strict_partition_epochs",
    "checks_partition_epochs",
    "checks_assignment_metadata",
    "has_metadata_hash",
}
# Groups for which 3.8 to 4.0.0 note producers: their clean-up knows them by the release's name, which no rule changes.
NOT_ALONE = {"open_transactions_by", "streams_ready_by_validated_epoch"}
SKIPPED = "4.4 does not know the records of consumer groups and skips them (KIP-915)"
SENTENCES = {**RULES, **EXPIRY_RULES, "record_types": SKIPPED}


class Case(NamedTuple):
    """`b`: the value of the rule on side B; side A has 4.4's. `write`: the records of group g that show it. `shows`:
    what differs, in order of the kinds."""

    b: Any
    write: Callable[[Log, str], Log]
    shows: tuple[tuple[str, str], ...]


COMMITTED, PENDING = ("committed_offset", "committed_offset"), ("pending_offset", "committed_offset")
EXPIRES, DELETED = ("offset_expiry", "decision"), ("group_expiry", "decision")
TWO_DAYS = 2 * DAY
OLD = NOW - TWO_DAYS
# One subtopology that reads topic t; one that somebody has described.
TOPOLOGY = {"subtopologies": [{"subtopologyId": "0", "sourceTopics": ["t"]}]}
DESCRIBED = {"epoch": 7, "storedDescriptionTopologyEpoch": 3}


def with_expiry(log: Log, group: str, expires: int) -> Log:
    """A commit with a time of its own (-1: none)."""
    value = {"offset": 5, "commitTimestamp": NOW, "expireTimestamp": expires}
    return log.append(record(1, {"group": group, "topic": "t", "partition": 0}, value, version=1))


def unknown_marker(log: Log, producer: int) -> Log:
    fields = {"attributes": TRANSACTIONAL | CONTROL, "producer_id": producer, "producer_epoch": 0}
    return log.append((struct.pack(">hh", 0, 9), struct.pack(">hi", 0, 0)), **fields)


def streams(log: Log, group: str) -> Log:
    return log.member(group, "m", record_type=19).append(record(23, {"groupId": group}, TOPOLOGY))


# Rules of the replay, then of expiry. Producers differ, so that no marker ends another case's transaction.
CASES: dict[str, Case] = {
    "record_types": Case(TYPES_43 - CONSUMER, lambda log, g: log.group_epoch(g, 7), (("group", "group"),)),
    "transactional_by": Case(
        "batch",
        lambda log, g: log.commit(g, producer=1, in_transaction=False),
        (COMMITTED, PENDING, ("group_expiry", "deletes_at")),
    ),
    "tombstone_removes_pending": Case(
        "of_its_transaction",
        lambda log, g: log.commit(g, producer=2).remove_offset(g).end(2),
        (COMMITTED, DELETED),
    ),
    "commit_needs_newer_record": Case(
        False, lambda log, g: log.commit(g, offset=3, producer=3).commit(g).end(3), (COMMITTED,)
    ),
    "unknown_marker_ends_transaction": Case(
        True, lambda log, g: unknown_marker(log.commit(g, producer=4), 4), (PENDING, DELETED)
    ),
    "simple_groups_follow_offsets": Case(True, lambda log, g: log.commit(g).remove_offset(g), (("group", "group"),)),
    "empty_group_keeps_protocol_type": Case(
        False, lambda log, g: log.classic(g, since=NOW - 1), (("group", "protocol_type"),)
    ),
    "reads_state_timestamp_of_version_3": Case(
        False,
        lambda log, g: log.commit(g, committed_ago=TWO_DAYS).classic(g, since=NOW - 1),
        (("group", "current_state_timestamp"), EXPIRES, DELETED),
    ),
    "unset_rebalance_timeout_is_session_timeout": Case(
        False,
        lambda log, g: log.classic(g, classic_member("m", rebalanceTimeout=-1), since=-1),
        (("member", "rebalance_timeout_ms"),),
    ),
    "fresh_epoch": Case(
        0,
        lambda log, g: log.member(g, "m", "t"),
        (("group", "state"), ("group", "group_epoch"), ("group", "assignment_epoch")),
    ),
    "share_member_keeps_state": Case(
        False,
        # A member in the state UnrevokedPartitions changes.
        lambda log, g: (
            log.group_epoch(g, 7, 11)
            .member(g, "m", "t", record_type=10)
            .current(g, "m", epoch=7, state=1, record_type=14)
            .member(g, "m", "t", record_type=10)
        ),
        (("member", "member_state"),),
    ),
    "unset_topology_epoch": Case(0, streams, (("group", "state"),)),
    "depends_on_group": Case(
        False,
        lambda log, g: log.classic(g, classic_member("m"), since=OLD).commit(g, committed_ago=TWO_DAYS),
        (EXPIRES,),
    ),
    "subscription_states": Case(
        frozenset(),
        lambda log, g: (
            log.classic(g, classic_member("m", topics=("u",)), since=OLD)
            .commit(g, committed_ago=TWO_DAYS)
            .commit(g, "u", committed_ago=TWO_DAYS)
        ),
        (EXPIRES,),
    ),
    "topology_unread_states": Case(
        frozenset({"Empty", "Dead", "NotReady"}),
        lambda log, g: streams(log.group_epoch(g, 7, 17), g).commit(g, committed_ago=TWO_DAYS),
        (EXPIRES,),
    ),
    "pending_transaction_spares": Case(
        False, lambda log, g: log.commit(g, committed_ago=TWO_DAYS).commit(g, producer=5), (EXPIRES,)
    ),
    "honours_expire_timestamp": Case(False, lambda log, g: with_expiry(log, g, NOW - 1), (EXPIRES, DELETED)),
    "v1_without_expire_timestamp_expired": Case(True, lambda log, g: with_expiry(log, g, -1), (EXPIRES, DELETED)),
    "is_strict": Case(True, lambda log, g: log.commit(g, committed_ago=DAY), (EXPIRES, DELETED)),
    "open_transaction": Case(
        OpenTransactionRule.NEVER,
        lambda log, g: log.commit(g, committed_ago=TWO_DAYS).commit(g, "u", producer=6),
        (DELETED,),
    ),
    "keeps_described_streams_groups": Case(
        False, lambda log, g: log.append(record(17, {"groupId": g}, DESCRIBED)), (DELETED,)
    ),
    "deletes_share_groups": Case(True, lambda log, g: log.group_epoch(g, 7, 11), (DELETED,)),
    "share_offsets_end_clean_up": Case(
        False,
        lambda log, g: log.group_epoch("share", 7, 11).commit("share").commit(g, committed_ago=TWO_DAYS),
        (EXPIRES, DELETED),
    ),
}


def files():
    """All cases in one log: each is a group with the name of its rule. One that would disturb others has its own
    partition."""
    logs = Log(0), Log(1)
    for rule, case in CASES.items():
        case.write(logs[rule == "share_offsets_end_clean_up"], rule)
    return logs[0].files | logs[1].files


@dataclass(frozen=True)
class RuledSide(Side):
    """4.4 with some rules of other releases."""

    changed: tuple[tuple[str, Any], ...] = ()

    @property
    def rules(self):
        return release("4.4")._replace(**{name: value for name, value in self.changed if name in RULES})

    def clean_up(self, as_of_ms, audit_id):
        changed = {name: value for name, value in self.changed if name in EXPIRY_RULES}
        return super().clean_up(as_of_ms, audit_id)._replace(tried=expiry_rules("4.4")._replace(**changed))


class Lakes:
    """A lake, and comparisons over it."""

    def __init__(self, log):
        self.audited: Audited = audit(log, How("4.4"))

    def compared(self, *rules):
        """The differences between 4.4 and 4.4 with these rules changed as their cases say."""
        changed = tuple((rule, CASES[rule].b) for rule in rules)
        return self.comparison(RuledSide("4.4", DAY), RuledSide("4.4", DAY, changed)).differences

    def comparison(self, a, b):
        with in_memory():
            lake = Lake.open(self.audited.session, self.audited.lake)
            return compare(lake, a, b, NOW, progress=lambda _: None)


@pytest.fixture(scope="module")
def lakes():
    yield Lakes(files())


def test_every_rule_has_a_case():
    assert CASES.keys() | ENDS_LOADS | NOT_ALONE == RULES.keys() | EXPIRY_RULES.keys()


@pytest.mark.parametrize("rule", some_of(8, *CASES))
def test_a_rule_alone_is_the_reason_of_all_that_it_makes(lakes, rule):
    found = lakes.compared(rule)
    assert {each.why for each in found} == {SENTENCES[rule]}
    assert tuple((each.difference, each.what) for each in found if each.group_id == rule) == CASES[rule].shows


def test_a_rule_that_ends_a_load_is_named_by_the_load(lakes):
    """A release that does not skip records of unknown types is never said to skip them, and has no other difference."""
    old = RuledSide("2.3", DAY, (("record_types", OFFSET_AND_CLASSIC), ("skips_unknown_types", False)))
    found = lakes.comparison(RuledSide("4.4", DAY), old)
    assert {each.difference for each in found.differences} == {LOAD, GROUP}
    assert {each.follows_from for each in found.differences if each.difference == GROUP} == {LOAD}
    assert [*found.facts[1].failing] == [0, 1]
    assert not found.facts[1].skipped
    skipping = replace(old, changed=old.changed[:1])
    counts = lakes.comparison(RuledSide("4.4", DAY), skipping).facts[1].skipped
    assert counts.keys() == {3, 5, 10, 11, 14, 17, 19, 23}


def test_retention_is_a_reason(lakes):
    found = lakes.comparison(RuledSide("4.4", DAY), RuledSide("4.4", 3 * DAY)).differences
    assert {(each.difference, each.why) for each in found} == {
        ("offset_expiry", "retention is 1d and 3d"),
        ("group_expiry", "retention is 1d and 3d"),
    }


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["some", "every"])
def test_of_two_rules_a_difference_has_the_one_that_alone_makes_it(lakes, every):
    """If both alone make it, or none does, it has both or either; and it has another only where both act on it."""
    pairs = Chosen("pairs of rules", every).some(itertools.combinations(CASES, 2), 2)
    for pair in pairs:
        alone = {rule: {_made(each) for each in lakes.compared(rule)} for rule in pair}
        for each in lakes.compared(*pair):
            makers = [rule for rule in pair if _made(each) in alone[rule]]
            said = {"; ".join(SENTENCES[rule] for rule in rules) for rules in (pair, pair[:1], pair[1:])}
            assert each.why in ({"; ".join(SENTENCES[rule] for rule in makers)} if makers else said), (pair, each)


def _made(difference):
    return difference._replace(why=None, follows_from=None)


def test_a_group_that_differs_twice_has_two_reasons():
    """It left topic t and still reads u. 4.4 knows since when it is Stable, and lets the offset of t expire; neither
    has to do with the other."""
    log = Log().classic("g", classic_member("m", topics=("u",)), since=NOW - 1)
    log.commit("g", committed_ago=TWO_DAYS).commit("g", "u", committed_ago=TWO_DAYS)
    of_both = {"reads_state_timestamp_of_version_3", "subscription_states"}
    found = Lakes(log.files).compared(*of_both)
    assert [(each.what, each.why, each.follows_from) for each in found] == [
        ("current_state_timestamp", RULES["reads_state_timestamp_of_version_3"], None),
        ("decision", EXPIRY_RULES["subscription_states"], None),
    ]


def test_expiry_that_follows_from_the_state_has_the_rule_that_makes_it():
    """The group's timestamp differs and an offset of it; the timestamp alone decides."""
    log = Log().classic("g", since=NOW - 1).commit("g", committed_ago=TWO_DAYS)
    log.commit("g", "u", offset=3, producer=1).commit("g", "u").end(1)
    found = Lakes(log.files).compared("reads_state_timestamp_of_version_3", "commit_needs_newer_record")
    of_timestamp = RULES["reads_state_timestamp_of_version_3"]
    assert [(each.difference, each.topic, each.why, each.follows_from) for each in found] == [
        ("group", None, of_timestamp, None),
        ("committed_offset", "u", RULES["commit_needs_newer_record"], None),
        ("offset_expiry", "t", of_timestamp, "group"),
        ("offset_expiry", "u", of_timestamp, "group"),
        ("group_expiry", None, of_timestamp, "group"),
    ]


def test_in_a_group_of_a_skipped_type_an_offset_keeps_its_own_reason():
    log = Log().group_epoch("g", 7).commit("g").commit("g", "u", offset=3, producer=1).commit("g", "u").end(1)
    found = Lakes(log.files).compared("record_types", "commit_needs_newer_record")
    assert [(each.difference, each.what, each.why) for each in found if each.difference != "offset_expiry"] == [
        ("group", "group_type", SKIPPED),
        ("committed_offset", "committed_offset", RULES["commit_needs_newer_record"]),
    ]


# Differences between two releases: which of them follow from which.
RULE, EXPIRY_RULE = "a rule of the coordinator", "a rule of expiry"


def difference(kind, group_id="g", what="decision", **more):
    values = {"value_a": "a", "value_b": "b"} | more
    return Difference(kind, 1, group_id, what, **values)


def causes(*differences):
    return [(each.difference, each.follows_from) for each in with_causes(differences)]


def test_groups_of_a_partition_that_does_not_load_follow_from_the_load():
    load = difference("load", None, "load")
    groups = [difference("group", name, "group", value_b=WITHOUT_LOAD["java"], why="w") for name in "ab"]
    assert causes(*groups, load) == [("load", None), ("group", "load"), ("group", "load")]


def test_members_follow_from_their_group_where_one_rule_makes_both():
    group = difference("group", what="group_epoch", why=RULE)
    assert causes(difference("member", why=RULE, what="member_epoch"), group)[1] == ("member", "group")
    assert causes(difference("member", why="another rule", what="member_epoch"), group)[1] == ("member", None)
    assert causes(difference("member", "h", why=RULE, what="member_epoch"), group)[1] == ("member", None)


def test_an_offset_is_a_cause_unless_it_only_lacks_its_group():
    group = difference("group", what="group", value_b=None, why=RULE)
    lost = difference("committed_offset", what="committed_offset", why=RULE)
    orphan = difference("committed_offset", what="is_orphan", why=RULE)
    assert causes(group, lost)[1] == ("committed_offset", None)
    assert causes(group, orphan)[1] == ("committed_offset", "group")


def test_expiry_follows_from_other_differences_in_the_group():
    group = difference("group", what="group_type", why=RULE)
    of_group = [difference("offset_expiry", partition=n, why=OTHER_GROUP) for n in (0, 1)]
    assert causes(group, *of_group)[1:] == [("offset_expiry", "group")] * 2
    pending = difference("pending_offset", what="committed_offset", why=RULE)
    of_offsets = [difference(kind, why=OTHER_OFFSETS) for kind in ("offset_expiry", "group_expiry")]
    assert causes(*of_offsets, pending)[1:] == [("offset_expiry", "pending_offset"), ("group_expiry", "pending_offset")]


def test_causes_come_before_their_effects_in_log_order():
    """By kind, offsets partition, group, topic, partition and member, in whichever order they were found."""
    in_order = [
        difference("group", None),
        difference("group", "b"),
        difference("member", "a", member_id="m1"),
        difference("member", "a", member_id="m2"),
        difference("committed_offset", "a"),
        difference("committed_offset", "a", topic="t", partition=0),
        difference("committed_offset", "a", topic="t", partition=1),
        difference("committed_offset", "a", topic="u", partition=0),
        difference("committed_offset", "b", topic="t", partition=0),
        difference("committed_offset", "a", topic="t", partition=0)._replace(offsets_partition=2),
        difference("group_expiry", "a"),
    ]
    for found in (in_order, in_order[::-1]):
        assert with_causes(found) == in_order


def test_a_rule_of_expiry_is_a_cause_once_in_each_group():
    offsets = [difference("offset_expiry", name, partition=n, why=EXPIRY_RULE) for name in "gh" for n in (0, 1)]
    assert [each.follows_from for each in with_causes(offsets)] == [None, "offset_expiry"] * 2
    group = difference("group", what="group_epoch", why=RULE)
    assert causes(group, offsets[0])[1] == ("offset_expiry", None)
    deleted = difference("group_expiry", why=OTHER_OFFSETS)
    assert causes(offsets[0], deleted)[1] == ("group_expiry", "offset_expiry")


SEGMENT = "__consumer_offsets-0/00000000000000000000.log"


def compared(files, a, b):
    return Lakes(files).comparison(Side(a, DAY), Side(b, DAY))


def test_a_log_without_records_has_no_differences():
    found = compared({SEGMENT: b""}, "4.3", "3.9")
    assert (found.partitions, found.differences, found.facts[0].failing) == (0, [], {})


def test_groups_of_a_partition_that_does_not_load_are_counted_as_the_other_release_has_them():
    """2.0 cannot read any of these offsets, so by its rules there would be no group."""
    found = compared(Log().commit("g").commit("g", "u").commit("g", "v").files, "4.3", "2.0")
    assert [(each.unserved_groups, each.unserved_offsets, [*each.failing]) for each in found.facts] == [
        (0, 0, []),
        (1, 3, [0]),
    ]
    assert [each.group_id for each in found.differences if each.difference == GROUP] == ["g"]


@pytest.mark.parametrize(
    ("versions", "ends_with"),
    [
        ("a3 a1", "version 3 for 1 type; newer records of the same keys follow, Kafka's cleaner may have removed it"),
        ("a3 a3 a1 b3 b1", "(and 2 more); newer records of the same keys follow, Kafka's cleaner may have removed it"),
        ("a3 a1 b3", "version 3 for 1 type (and 1 more)"),
        ("a3 a3", "version 3 for 1 type (and 1 more)"),
        ("a1 a3 b1", "version 3 for 1 type"),
        ("a3 a1 ??", "version 3 for 1 type (and 1 more)"),
    ],
)
def test_a_failed_load_is_reported_at_its_first_record(versions, ends_with):
    """2.0 cannot read value version 3. A newer record of the key that it can read may have replaced the failing one."""
    log = Log()
    for topic, version in versions.split():
        key = {"group": "g", "topic": topic, "partition": 0}
        log.append((record(1, key, None)[0], b"") if version == "?" else record(1, key, {}, int(version)))
    found = compared(log.files, "4.3", "2.0").facts
    first = versions.split().index("a3")
    detail = found[1].failing[0]
    assert detail.startswith(f"log offset {first}: OffsetCommit (type 1) of group g: ")
    assert detail.endswith(ends_with)
    assert found[1].compacted_perhaps == ({0} if "cleaner" in ends_with else set())


def test_a_rule_that_counts_once_the_offsets_are_gone_is_a_cause():
    """The group has offsets by both, so the reason of both is `offsets_left`, but one never deletes it."""
    files = read_zip(CORPORA)["scala-3.9-reloaded"]
    found = compared({path: files[path] for path in segments_of(files)[3]}, "3.2", "3.7-java")
    causes = {(each.difference, each.what, each.why) for each in found.differences if each.follows_from is None}
    assert (GROUP_EXPIRY, "deletes_at", EXPIRY_RULES["open_transaction"]) in causes


def test_a_corrupt_batch_does_not_stop_the_load_of_either_release():
    """No release checks a CRC when it loads."""
    log = Log().commit("g")
    size = len(log.data)
    damaged = bytearray(log.commit("g", "u").data)
    damaged[size - 3] ^= 1
    found = compared({SEGMENT: bytes(damaged)}, "4.3", "3.9")
    assert [[*each.failing] for each in found.facts] == [[], []]
