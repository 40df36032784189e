"""Two releases compared over a lake: what the tasks report equals what Kafka's own classes of both releases held, why,
and what both would expire."""

from __future__ import annotations

import random

import pytest

from kgroups_spark.audit.comparison import Side, compare
from kgroups_spark.audit.differences import GROUP_EXPIRY, LOAD, OFFSET_EXPIRY
from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.audit.run import run_audit
from kgroups_spark.coordinator.releases import release
from kgroups_spark.lake.lake import Lake
from tests.chosen import seed
from tests.coordinator.generated_logs import answers, place, segments
from tests.coordinator.oracle_answers import fails
from tests.coordinator.oracle_differences import expected
from tests.logs.log_files import checkpoint_of
from tests.nights.nights_here import How, audit, write_files

# Logs without an offsets partition in common, and partitions of them with differences of most kinds. FAILS is one that
# one release alone loads.
RICH = (("adversarial-4002", 15), ("adversarial-4004", 4), ("adversarial-loadable-5006", 29))
FAILS = ("adversarial-4007", 23)
ALL = tuple(each for each in segments() if each[0] in {*dict(RICH), FAILS[0], "compacted-3005"})
DAY_MS = 86_400_000
AS_OF_MS = 1_700_500_000_000
A, B = "4.3.1", "3.9.2"


@pytest.fixture(
    scope="module",
    params=[(random.Random(seed()).choice(RICH), FAILS), pytest.param(ALL, marks=pytest.mark.soak)],
    ids=["two", "all"],
)
def shards(request):
    """Partitions of logs: two; in a soak all."""
    return request.param


@pytest.fixture(scope="module")
def lake(session, shards, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    files = {path: data for each in shards for path, data in segments()[each].items()}
    write_files(folder / "segments", {**files, **checkpoint_of(files)})
    run_audit(session, AuditOptions(lake=str(folder / "lake"), segments=[str(folder / "segments")]))
    return Lake.open(session, str(folder / "lake"))


@pytest.fixture(scope="module")
def found(lake):
    return compared(lake, A, B)


def compared(lake, a, b, **more):
    return compare(lake, Side(a, DAY_MS), Side(b, DAY_MS), AS_OF_MS, progress=lambda _: None, **more)


def answered(version, shards):
    return {number: answer for log, answer in answers(version) if (log, number := answer["partition"]) in shards}


def test_differences_equal_those_of_kafkas_own_classes(found, shards):
    of_a, of_b = answered(A, shards), answered(B, shards)
    said = {(number, *each) for number in of_a for each in expected(of_a[number], of_b[number], release(A), release(B))}
    ours = {
        (each.offsets_partition, *place(each))
        for each in found.differences
        if each.difference not in (OFFSET_EXPIRY, GROUP_EXPIRY)
    }
    assert ours == said
    assert found.facts[0].failing.keys() == {number for number, answer in of_a.items() if fails(answer)}
    assert found.facts[1].failing.keys() == {number for number, answer in of_b.items() if fails(answer)}
    assert found.facts[0].failing.keys() - found.facts[1].failing.keys()


def test_every_difference_has_a_reason(found):
    assert [each for each in found.differences if each.why is None and each.difference != LOAD] == []
    whys = {each.why for each in found.differences if each.difference == "committed_offset"}
    # One rule alone makes most of them: tombstones in transactions, records with a producer id and no transaction.
    assert any("(T21, T22)" in why for why in whys)
    assert any("(T28)" in why for why in whys)


def test_decisions_of_expiry_equal_those_of_each_release_alone(found, shards):
    judged = [judgements(version, shards) for version in (A, B)]
    both = judged[0].keys() & judged[1].keys()
    said = {place: tuple(each[place] for each in judged) for place in both if judged[0][place] != judged[1][place]}
    ours = {
        (each.offsets_partition, each.group_id, each.topic, each.partition): each
        for each in found.differences
        if each.difference == OFFSET_EXPIRY
    }
    assert ours.keys() == said.keys()
    assert ours
    decided = {place for place, (a, b) in said.items() if (a[0] == "keep") != (b[0] == "keep")}
    assert decided == {place for place, each in ours.items() if each.what == "decision"}


def judgements(version, shards):
    """Decision, and time, of every offset in partitions that both releases load, by an audit of this release alone."""
    failing = {n for each in (A, B) for n, answer in answered(each, shards).items() if fails(answer)}
    files = {path: data for each in shards for path, data in segments()[each].items()}
    rows = audit(files, How(version, retention_ms=DAY_MS, as_of=AS_OF_MS)).rows("offset_expiry")
    return {
        (row["offsets_partition"], row["group_id"], row["topic"], row["partition"]): (
            row["reason"] if row["decision"] == "expire" else "keep",
            row["expires_at"],
        )
        for row in rows
        if row["offsets_partition"] not in failing
    }


def test_one_group_alone_is_compared_as_among_all(lake, found):
    group = next(each.group_id for each in found.differences if each.difference == "committed_offset")
    alone = compared(lake, A, B, groups=[group])
    assert [each for each in alone.differences if each.difference != LOAD] == [
        each for each in found.differences if each.group_id == group
    ]


def test_the_same_rules_differ_in_nothing(lake):
    same = compared(lake, "3.9", "3.7")
    assert same.differences == []
    assert same.facts[0] == same.facts[1]
