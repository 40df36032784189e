"""Every rule in which two releases differ, alone and in pairs: each difference names the rule that makes it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kgroups_spark.audit.comparison import Comparison, Side, compare
from kgroups_spark.audit.differences import EXPIRY_RULES, GROUP, LOAD, RULES, Difference
from kgroups_spark.coordinator.releases import OFFSET_AND_CLASSIC, Release, expiry_rules, release
from kgroups_spark.lake.lake import Lake
from kgroups_spark.offsets.expiry import CleanUp
from tests.chosen import Chosen, some_of
from tests.compare.rule_cases import CASES, DAY_MS, NOW, OLD, Log, commit, consumer_group, files, snapshot
from tests.logs.log_files import Files
from tests.nights.nights_here import Audited, How, audit
from tests.protocol.fake_delta import in_memory

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
    def rules(self) -> Release:
        return replace(release("4.4"), **{name: value for name, value in self.changed if name in RULES})

    def clean_up(self, as_of_ms: int, audit_id: int) -> CleanUp:
        changed = {name: value for name, value in self.changed if name in EXPIRY_RULES}
        return replace(super().clean_up(as_of_ms, audit_id), tried=replace(expiry_rules("4.4"), **changed))


class Lakes:
    """A lake, and comparisons over it."""

    def __init__(self, log: Files) -> None:
        self.audited: Audited = audit(log, How("4.4"))

    def compared(self, *rules: str) -> list[Difference]:
        """The differences between 4.4 and 4.4 with these rules changed as their cases say."""
        changed = tuple((rule, CASES[rule].b) for rule in rules)
        return self.comparison(RuledSide("4.4", DAY_MS), RuledSide("4.4", DAY_MS, changed)).differences

    def comparison(self, a: Side, b: Side) -> Comparison:
        with in_memory():
            lake = Lake.open(self.audited.session, self.audited.lake)
            return compare(lake, a, b, NOW, progress=lambda _: None)


@pytest.fixture(scope="module")
def lakes() -> Iterator[Lakes]:
    yield Lakes(files())


def test_every_rule_has_a_case() -> None:
    assert CASES.keys() | ENDS_LOADS | NOT_ALONE == RULES.keys() | EXPIRY_RULES.keys()


@pytest.mark.parametrize("rule", some_of(8, *CASES))
def test_a_rule_alone_is_the_reason_of_all_that_it_makes(lakes: Lakes, rule: str) -> None:
    found = lakes.compared(rule)
    assert {each.why for each in found} == {SENTENCES[rule]}
    assert tuple((each.difference, each.what) for each in found if each.group_id == rule) == CASES[rule].shows


def test_a_rule_that_ends_a_load_is_named_by_the_load(lakes: Lakes) -> None:
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


def test_retention_is_a_reason(lakes: Lakes) -> None:
    found = lakes.comparison(RuledSide("4.4", DAY_MS), RuledSide("4.4", 3 * DAY_MS)).differences
    assert {(each.difference, each.why) for each in found} == {
        ("offset_expiry", "retention is 1d and 3d"),
        ("group_expiry", "retention is 1d and 3d"),
    }


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["some", "every"])
def test_of_two_rules_a_difference_has_the_one_that_alone_makes_it(lakes: Lakes, every: bool) -> None:
    """If both alone make it, or none does, it has both or either; and it has another only where both act on it."""
    pairs = Chosen("pairs of rules", every).some(itertools.combinations(CASES, 2), 2)
    for pair in pairs:
        alone = {rule: {_made(each) for each in lakes.compared(rule)} for rule in pair}
        for each in lakes.compared(*pair):
            makers = [rule for rule in pair if _made(each) in alone[rule]]
            said = {"; ".join(SENTENCES[rule] for rule in rules) for rules in (pair, pair[:1], pair[1:])}
            assert each.why in ({"; ".join(SENTENCES[rule] for rule in makers)} if makers else said), (pair, each)


def _made(difference: Difference) -> Difference:
    return difference._replace(why=None, follows_from=None)


def test_a_group_that_differs_twice_has_two_reasons() -> None:
    """It left topic t and still reads u. 4.4 knows since when it is Stable, and lets the offset of t expire; neither
    has to do with the other."""
    log = Log().add(snapshot("g", "m", topic="u", at=NOW - 1), commit("g", at=OLD), commit("g", "u", OLD))
    of_both = {"reads_state_timestamp_of_version_3", "subscription_states"}
    found = Lakes({"__consumer_offsets-0/00000000000000000000.log": log.data}).compared(*of_both)
    assert [(each.what, each.why, each.follows_from) for each in found] == [
        ("current_state_timestamp", RULES["reads_state_timestamp_of_version_3"], None),
        ("decision", EXPIRY_RULES["subscription_states"], None),
    ]


def test_expiry_that_follows_from_the_state_has_the_rule_that_makes_it() -> None:
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


def test_in_a_group_of_a_skipped_type_an_offset_keeps_its_own_reason() -> None:
    log = Log().add(consumer_group("g"), commit("g"))
    log.pending(commit("g", "u", offset=3)).add(commit("g", "u")).end()
    found = Lakes({"__consumer_offsets-0/00000000000000000000.log": log.data}).compared(
        "record_types", "commit_needs_newer_record"
    )
    assert [(each.difference, each.what, each.why) for each in found if each.difference != "offset_expiry"] == [
        ("group", "group_type", SKIPPED),
        ("committed_offset", "committed_offset", RULES["commit_needs_newer_record"]),
    ]
