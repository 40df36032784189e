"""Every rule in which two releases differ, alone and in pairs: each difference names the rule that makes it."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, replace
from typing import Any

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
from kgroups_spark.coordinator.releases import OFFSET_AND_CLASSIC, expiry_rules, release
from kgroups_spark.lake.lake import Lake
from tests.chosen import Chosen, some_of
from tests.compare.rule_cases import CASES, DAY_MS, NOW, OLD, Log, commit, consumer_group, files, snapshot
from tests.logs.dense_logs import text
from tests.logs.log_files import read_zip, segments_of
from tests.nights.nights_here import Audited, How, audit
from tests.protocol.fake_delta import in_memory
from tests.recorded_logs import CORPORA
from tests.records.build import batch

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


@dataclass(frozen=True)
class RuledSide(Side):
    """4.4 with some rules of other releases."""

    changed: tuple[tuple[str, Any], ...] = ()

    @property
    def rules(self):
        return replace(release("4.4"), **{name: value for name, value in self.changed if name in RULES})

    def clean_up(self, as_of_ms, audit_id):
        changed = {name: value for name, value in self.changed if name in EXPIRY_RULES}
        return replace(super().clean_up(as_of_ms, audit_id), tried=replace(expiry_rules("4.4"), **changed))


class Lakes:
    """A lake, and comparisons over it."""

    def __init__(self, log):
        self.audited: Audited = audit(log, How("4.4"))

    def compared(self, *rules):
        """The differences between 4.4 and 4.4 with these rules changed as their cases say."""
        changed = tuple((rule, CASES[rule].b) for rule in rules)
        return self.comparison(RuledSide("4.4", DAY_MS), RuledSide("4.4", DAY_MS, changed)).differences

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
    old = RuledSide("2.3", DAY_MS, (("record_types", OFFSET_AND_CLASSIC), ("skips_unknown_types", False)))
    found = lakes.comparison(RuledSide("4.4", DAY_MS), old)
    assert {each.difference for each in found.differences} == {LOAD, GROUP}
    assert {each.follows_from for each in found.differences if each.difference == GROUP} == {LOAD}
    assert [*found.facts[1].failing] == [0, 1]
    assert not found.facts[1].skipped
    skipping = replace(old, changed=old.changed[:1])
    counts = lakes.comparison(RuledSide("4.4", DAY_MS), skipping).facts[1].skipped
    assert counts.keys() == {3, 5, 10, 11, 14, 17, 19, 23}


def test_retention_is_a_reason(lakes):
    found = lakes.comparison(RuledSide("4.4", DAY_MS), RuledSide("4.4", 3 * DAY_MS)).differences
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
    log = Log().add(snapshot("g", "m", topic="u", at=NOW - 1), commit("g", at=OLD), commit("g", "u", OLD))
    of_both = {"reads_state_timestamp_of_version_3", "subscription_states"}
    found = Lakes({"__consumer_offsets-0/00000000000000000000.log": log.data}).compared(*of_both)
    assert [(each.what, each.why, each.follows_from) for each in found] == [
        ("current_state_timestamp", RULES["reads_state_timestamp_of_version_3"], None),
        ("decision", EXPIRY_RULES["subscription_states"], None),
    ]


def test_expiry_that_follows_from_the_state_has_the_rule_that_makes_it():
    """The group's timestamp differs and an offset of it; the timestamp alone decides."""
    log = Log().add(snapshot("g", at=NOW - 1), commit("g", at=OLD))
    log.pending(commit("g", "u", offset=3)).add(commit("g", "u")).end()
    found = Lakes({"__consumer_offsets-0/00000000000000000000.log": log.data}).compared(
        "reads_state_timestamp_of_version_3", "commit_needs_newer_record"
    )
    of_timestamp = RULES["reads_state_timestamp_of_version_3"]
    assert [(each.difference, each.topic, each.why, each.follows_from) for each in found] == [
        ("group", None, of_timestamp, None),
        ("committed_offset", "u", RULES["commit_needs_newer_record"], None),
        ("offset_expiry", "t", of_timestamp, "group"),
        ("offset_expiry", "u", of_timestamp, "group"),
        ("group_expiry", None, of_timestamp, "group"),
    ]


def test_in_a_group_of_a_skipped_type_an_offset_keeps_its_own_reason():
    log = Log().add(consumer_group("g"), commit("g"))
    log.pending(commit("g", "u", offset=3)).add(commit("g", "u")).end()
    found = Lakes({"__consumer_offsets-0/00000000000000000000.log": log.data}).compared(
        "record_types", "commit_needs_newer_record"
    )
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


def partition_of(corpus, number):
    """One offsets partition of a recording."""
    files = read_zip(CORPORA)[corpus]
    return {path: files[path] for path in segments_of(files)[number]}


def compared(files, a, b, *, retention_ms=(DAY_MS, DAY_MS)):
    audited = audit(files)
    sides = [Side(*side) for side in zip((a, b), retention_ms, strict=True)]
    with in_memory():
        lake = Lake.open(audited.session, audited.lake)
        return compare(lake, *sides, 0, progress=lambda _: None)


def whys(found, kind):
    """The decisions of this kind that follow from no other difference: the field that differs, and why."""
    rows = [each for each in found.differences if each.difference == kind and each.follows_from is None]
    return {(each.what, each.why) for each in rows}


def test_a_log_without_records_has_no_differences():
    found = compared({SEGMENT: b""}, "4.3", "3.9")
    assert (found.partitions, found.differences, found.facts[0].failing) == (0, [], {})


def test_groups_of_a_partition_that_does_not_load_are_counted_as_the_other_release_has_them():
    """2.0 cannot read any of these offsets, so by its rules there would be no group."""
    slots = [struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", number) for number in range(3)]
    value = struct.pack(">hqi", 3, 7, -1) + text("") + struct.pack(">q", 1000)
    found = compared({SEGMENT: batch(0, [(slot, value) for slot in slots])}, "4.3", "2.0")
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
    values = {
        "1": struct.pack(">hq", 1, 7) + text("") + struct.pack(">qq", 1000, -1),
        "3": struct.pack(">hqi", 3, 7, -1) + text("") + struct.pack(">q", 1000),
        "?": b"",
    }
    records = [
        (struct.pack(">h", 1) + text("g") + text(topic) + struct.pack(">i", 0), values[version])
        for topic, version in versions.split()
    ]
    found = compared({SEGMENT: batch(0, records)}, "4.3", "2.0").facts
    first = versions.split().index("a3")
    detail = found[1].failing[0]
    assert detail.startswith(f"log offset {first}: OffsetCommit (type 1) of group g: ")
    assert detail.endswith(ends_with)
    assert found[1].compacted_perhaps == ({0} if "cleaner" in ends_with else set())


def test_a_rule_that_counts_once_the_offsets_are_gone_is_a_cause():
    """The group has offsets by both, so the reason of both is `offsets_left`, but one never deletes it."""
    found = compared(partition_of("scala-3.9-reloaded", 3), "3.2", "3.7-java")
    assert ("deletes_at", EXPIRY_RULES["open_transaction"]) in whys(found, GROUP_EXPIRY)


def test_a_corrupt_batch_does_not_stop_the_load_of_either_release():
    """No release checks a CRC when it loads."""
    slots = [struct.pack(">h", 1) + text("g") + text(topic) + struct.pack(">i", 0) for topic in "tu"]
    value = struct.pack(">hqi", 3, 7, -1) + text("") + struct.pack(">q", 1000)
    damaged = bytearray(batch(0, [(slots[0], value)]))
    damaged[-3] ^= 1
    found = compared({SEGMENT: bytes(damaged) + batch(1, [(slots[1], value)])}, "4.3", "3.9")
    assert [[*each.failing] for each in found.facts] == [[], []]
    empty = compared({SEGMENT: batch(0, [(slots[0], b"")])}, "4.3", "3.9")
    assert [[*each.failing] for each in empty.facts] == [[0], [0]]
