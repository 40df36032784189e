"""The releases by name, and which record types they replay: case T41 and KIP-915."""

from __future__ import annotations

import re

import pytest

from kgroups_spark.audit.differences import (
    EXPIRY_RULES,
    RULES,
    WITHOUT_TRACE,
    Loaded,
    LoadFailures,
    differences,
    reason,
    tried_releases,
)
from kgroups_spark.coordinator.releases import NEWEST, RELEASES, Release, release
from tests.chosen import one_of
from tests.coordinator.generated_logs import answers, loaded, place, segments
from tests.coordinator.oracle_differences import expected
from tests.coordinator.records import Log, classic, classic_member, consumer_member, epoch


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("4.4.0", "4.4"),
        ("4.3.1", "4.3"),
        ("4.2.0", "4.2.0"),
        ("4.0.2", "4.0"),
        ("4.0.0", "4.0.0"),
        ("3.9.2", "3.9"),
        ("3.9.1-java", "3.9-java"),
        ("3.7-java", "3.7-java"),
        ("3.4.1", "3.4"),
        ("3.4.0", "3.4.0"),
        ("2.6.0", "2.6.0"),
        ("1.0.0", "1.0.0"),
        ("0.11.0.3", "0.11"),
        ("0.8.2.2", "0.8"),
    ],
)
def test_a_version_names_the_rules_of_its_release(asked, name):
    assert release(asked).name == name


@pytest.mark.parametrize("asked", ["", "four", "kafka-3.9"])
def test_an_unknown_release_is_refused_with_the_known_ones(asked):
    with pytest.raises(ValueError, match=r"is unknown; known are 4\.4, 4\.3"):
        release(asked)


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("43", "4.3"),
        ("2.9", "3.9"),
        ("4.3-java", "3.9-java"),
        ("3,9", "3.9"),
        ("3.9java", "3.9-java"),
    ],
)
def test_a_mistyped_release_suggests_the_nearest(asked, nearest):
    with pytest.raises(ValueError, match=f"is unknown; did you mean {nearest}"):
        release(asked)


@pytest.mark.parametrize("asked", ["4.5", "v4.10.1", "5.0", "5.0-java"])
def test_a_release_newer_than_all_is_refused_with_the_newest(asked):
    """Its name is near "4.0" and "2.0", whose rules are not like its own."""
    with pytest.raises(ValueError, match=rf"is unknown; the newest known one is {re.escape(NEWEST)}$"):
        release(asked)


def test_bare_3_7_to_3_9_mean_the_scala_coordinator():
    assert {release(v).coordinator for v in ("3.7", "3.8", "3.9", "0.8")} == {"scala"}
    assert {release(v).coordinator for v in ("3.7-java", "3.8-java", "3.9-java", "4.0", NEWEST)} == {"java"}
    assert all(rules.name == name for name, rules in RELEASES.items())


@pytest.mark.parametrize(("version", "record_type"), [("4.3", 99), ("4.3", 18), ("4.3", 9), ("4.0", 17), ("3.9", 3)])
def test_t41_unknown_types_are_skipped_even_as_tombstones(version, record_type):
    log = Log(version).record(record_type, None).record(record_type, epoch(1, topics=[]))
    assert (log.failed, log.states()) == ({}, {})


def test_t41_before_kip_915_types_from_3_on_fail():
    assert Log("3.3").record(3, epoch(1)).failed.keys() == {0}
    assert release("3.4.0").fails_to_read(3, None)
    assert not release("3.4.1").fails_to_read(3, None)


@pytest.mark.parametrize(
    ("version", "record_type", "value_version", "fails"),
    [
        ("4.3", 1, 4, False),
        ("4.3", 1, 5, True),
        ("4.3", 1, -1, True),
        ("4.3", 0, 0, False),
        ("4.3", 0, 1, True),
        ("4.0", 0, 4, False),
        ("4.3", 2, 4, False),
        ("4.3", 3, 1, True),
        ("4.3", 99, 0, False),
        ("2.3", 2, 3, False),
        ("2.2", 2, 3, True),
        ("2.0", 1, 2, True),
        ("0.10.1", 2, 1, False),
        ("0.10.0", 2, 1, True),
        ("4.3", 2, None, False),
    ],
)
def test_each_release_reads_its_value_versions(version, record_type, value_version, fails):
    assert release(version).fails_to_read(record_type, value_version) is fails


@pytest.mark.parametrize(("version", "newest"), [("0.10.0", 0), ("2.0", 1), ("2.2", 2), ("3.4.0", 3)])
def test_a_group_metadata_value_of_a_newer_version_fails_and_changes_nothing(version, newest):
    log = Log(version).record(2, classic(), value_version=newest)
    assert (log.failed, log.states()) == ({}, {"g": "classic Empty"})
    log.record(2, classic([classic_member("m1")]), value_version=newest + 1)
    assert (log.failed.keys(), log.states()) == ({1}, {"g": "classic Empty"})
    assert log.record(2, None).states() == {}


def test_t58_early_access_layouts_are_read_by_their_release_alone():
    assert [release(v).reads_layout("4.0") for v in ("4.0", "4.0.0", "4.1", "3.9-java")] == [True, True, False, False]
    assert [release(v).reads_layout("3.7") for v in ("3.7-java", "3.8-java", "4.3")] == [True, False, False]
    assert all(release(v).reads_layout(layout) for v in ("4.3", "3.7-java") for layout in ("", "?3.7"))


# Our differences between two releases are those between Kafka's own classes of both, which loaded the same logs.
#
# The logs are those of test_generated_logs.py. The classes of 3.7.2 gave, word for word, the answers of 3.9.2.
PAIRS = [
    ("4.3.1", "3.9.2"),
    ("4.3.1", "4.0.0"),
    ("4.3.1", "4.2.1"),
    ("4.2.1", "4.1.2"),
    ("4.1.2", "4.0.0"),
    ("3.9.2", "4.0.0"),
    ("3.9.2", "4.3.1"),
]


@pytest.mark.parametrize("pair", one_of(*PAIRS), ids=" ".join)
def test_differences_are_those_of_kafkas_own_classes(pair):
    """In both directions the same."""
    a, b = pair
    said_by_b = {(log, answer["partition"]): answer for log, answer in answers(b)}
    wrong, seen = [], 0
    for log, answer in answers(a):
        number = answer["partition"]
        one, other = loaded(log, number, a), loaded(log, number, b)
        found = set(differences(one, other))
        back = {each._replace(value_a=each.value_b, value_b=each.value_a) for each in differences(other, one)}
        assert found == back
        ours = set(map(place, found))
        said = expected(answer, said_by_b[log, number], release(a), release(b))
        seen += len(said)
        wrong += [(log, number, each) for each in ours ^ said]
    assert not wrong, wrong[:10]
    assert seen > 0


def test_every_kind_of_difference_is_among_them():
    kinds = {
        (each.difference, each.what)
        for log, answer in answers("4.3.1")
        if log.startswith("adversarial-loadable-")
        for b in ("3.9.2", "4.0.0")
        for each in differences(loaded(log, answer["partition"], "4.3.1"), loaded(log, answer["partition"], b))
    }
    assert kinds >= {
        ("load", "load"),
        ("group", "group"),
        ("group", "group_type"),
        ("group", "assignment_epoch"),
        ("member", "rebalance_timeout_ms"),
        ("committed_offset", "committed_offset"),
        ("committed_offset", "is_orphan"),
        ("pending_offset", "committed_offset"),
    }


SAME_RULES = [("4.3.1", "4.3"), ("3.9.2", "3.7.2"), ("3.8", "3.4.1"), ("4.0.0", "4.0.0")]


@pytest.mark.parametrize("pair", one_of(*SAME_RULES), ids=" ".join)
def test_releases_with_the_same_rules_have_no_differences(pair):
    for log, number in segments():
        assert list(differences(*(loaded(log, number, version) for version in pair))) == []


def both(log_a, log_b):
    pair = (Loaded(0, log.tables.release, log.state, LoadFailures()) for log in (log_a, log_b))
    return list(differences(*pair))


def test_a_consumer_group_is_a_simple_one_to_a_release_that_does_not_know_such_groups():
    of_a, of_b = (Log(v).record(3, epoch(2)).record(5, consumer_member(), "m").commit(7) for v in ("4.3", "3.9"))
    (found,) = both(of_a, of_b)
    assert (found.what, found.value_a, found.value_b) == (
        "group_type",
        "consumer, Assigning, members: 1",
        "classic, Empty, members: 0",
    )
    assert reason(found, release("4.3"), release("3.9")) == (
        "3.9 does not know the records of consumer groups and skips them (KIP-915)"
    )
    assert reason(found, release("4.3"), release("4.0")) is None


def test_members_are_compared_one_by_one():
    logs_ = [Log("4.3").record(2, classic([classic_member("m1"), classic_member("m2")])) for _ in "ab"]
    logs_[1].record(2, classic([classic_member("m1", sessionTimeout=7), classic_member("m3")]))
    found = [(e.what, e.member_id, e.value_a, e.value_b) for e in both(*logs_) if e.difference == "member"]
    assert found == [
        ("session_timeout_ms", "m1", "10000", "7"),
        ("member", "m2", "member", None),
        ("member", "m3", None, "member"),
    ]


def test_every_rule_in_which_releases_differ_has_a_sentence():
    assert RULES.keys() | WITHOUT_TRACE == set(Release._fields)
    tried = tried_releases(release("4.3"), release("3.9"))
    assert tried["transactional_by"].transactional_by == "batch"
    assert tried["transactional_by"].record_types == release("4.3").record_types
    assert all(tried_releases(rules, release("0.8")).keys() <= RULES.keys() for rules in RELEASES.values())


def test_every_expiry_rule_in_which_releases_differ_has_a_sentence():
    from kgroups_spark.coordinator.releases import ExpiryRules

    # No compared decision depends on the one, and the other has a name of its own: RETENTION.
    without = {"tombstone_at_generation_0", "default_retention_ms"}
    assert EXPIRY_RULES.keys() | without == set(ExpiryRules._fields)
