"""Our differences between two releases are those between Kafka's own classes of both, which loaded the same logs.

The logs are those of test_generated_logs.py. The classes of 3.7.2 gave, word for word, the answers of 3.9.2.
"""

from __future__ import annotations

import pytest

from kgroups_spark.audit.differences import (
    EXPIRY_RULES,
    EXPIRY_WITHOUT_TRACE,
    RULES,
    WITHOUT_TRACE,
    Difference,
    LoadFailures,
    differences,
    reason,
    tried_releases,
)
from kgroups_spark.coordinator.releases import RELEASES, Release, release
from tests.chosen import one_of
from tests.coordinator.generated_logs import answers, logs
from tests.coordinator.loaded_shards import as_loaded, loaded, loaded_shard, place
from tests.coordinator.oracle_differences import expected
from tests.coordinator.records import Log, classic, classic_member, consumer_member, epoch

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
    for log, partitions in logs().items():
        for number in partitions:
            one, other = (as_loaded(*loaded_shard(log, number, version)) for version in pair)
            assert list(differences(one, other)) == []


def both(log_a: Log, log_b: Log) -> list[Difference]:
    return list(differences(*(as_loaded(log.shard, LoadFailures()) for log in (log_a, log_b))))


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
    assert RULES.keys() | WITHOUT_TRACE == set(Release.__dataclass_fields__)
    tried = tried_releases(release("4.3"), release("3.9"))
    assert tried["transactional_by"].transactional_by == "batch"
    assert tried["transactional_by"].record_types == release("4.3").record_types
    assert all(tried_releases(rules, release("0.8")).keys() <= RULES.keys() for rules in RELEASES.values())


def test_every_expiry_rule_in_which_releases_differ_has_a_sentence():
    from kgroups_spark.coordinator.releases import ExpiryRules

    assert EXPIRY_RULES.keys() | EXPIRY_WITHOUT_TRACE == set(ExpiryRules.__dataclass_fields__)
