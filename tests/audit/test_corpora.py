"""Logs of real brokers through the whole audit: its tables agree with the brokers' answers.

The corpora were recorded from Kafka 0.11.0.3 to 4.4.0; beside each log are its broker's answers when it was asked
for its groups, members, committed and unstable offsets and producers (0.11 and 1.1 by librdkafka, whose metadata lack
the NUL byte that it appends and hides).
"""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

from kgroups_spark.replay.counts import fitting_partition_counts, partition_count
from tests.chosen import some_of
from tests.logs.corpora import ALL, ANSWERS, audited, decoded
from tests.nights import broker_answers

# 0.11's loader forgets the protocol type of an Empty group; this one became Empty while the broker was up, so it knew.
ANSWERS["legacy-0.11"]["groups"]["feed-105775"] |= {"protocol": None, "protocol_type": None, "simple": True}

SOME = some_of(4, *sorted(ALL))
of_some_releases = pytest.mark.parametrize("corpus", SOME)


def name_of(case: str | ParameterSet) -> str:
    """The recording of a case of `some_of`."""
    return case if isinstance(case, str) else str(case.values[0])


@of_some_releases
def test_groups_are_those_that_the_broker_lists_and_describes(corpus: str) -> None:
    ours, said = broker_answers.groups(audited(corpus).rows, ALL[corpus])
    assert said
    assert ours == said


@of_some_releases
def test_members_are_those_that_the_broker_describes(corpus: str) -> None:
    ours, said = broker_answers.members(audited(corpus).rows, ALL[corpus])
    assert any(said.values())
    assert ours == said


@of_some_releases
def test_committed_offsets_are_those_that_the_broker_serves(corpus: str) -> None:
    rows = audited(corpus).rows("committed_offsets")
    if corpus in ("legacy-0.11", "legacy-1.1"):
        rows = [{**row, "metadata": row["metadata"].rstrip("\0")} for row in rows]
    ours, said = broker_answers.committed_offsets(lambda _: rows, ALL[corpus])
    assert said or corpus in ("share-4.3", "share-4.4")
    assert ours == said


@of_some_releases
def test_pending_offsets_are_those_that_the_broker_calls_unstable(corpus: str) -> None:
    ours, said = broker_answers.pending_offsets(audited(corpus).rows, ALL[corpus])
    assert ours == said


@pytest.mark.parametrize("corpus", [each for each in SOME if "open_transactions" in ALL[name_of(each)]])
def test_open_transactions_are_those_of_the_brokers_producers(corpus: str) -> None:
    ours, said = broker_answers.open_transactions(audited(corpus).rows, ALL[corpus])
    assert ours == said


@of_some_releases
def test_every_record_is_in_one_table_and_every_offset_is_passed(corpus: str) -> None:
    result = audited(corpus)
    assert result.record_count() == result.records_read() > 0
    assert result.rows("quarantine") == []
    ends = {str(each.offsets_partition): each.end_offset for each in result.nights[-1].audit.partitions or ()}
    assert ends == {partition: end for partition, end in ALL[corpus]["ends"].items() if partition in ends}


@of_some_releases
def test_the_number_of_offsets_partitions_follows_from_the_groups(corpus: str) -> None:
    partitions = len(ALL[corpus]["ends"])
    fitting = [each.partition_counts for each in decoded(corpus).progress]
    assert all(partitions in counts for counts in fitting if counts)
    assert partition_count(fitting) in (partitions, None)


@of_some_releases
def test_the_number_of_offsets_partitions_follows_from_all_groups_of_the_log(corpus: str) -> None:
    """Share groups and those that never committed, too: the next audit finds them in `groups`."""
    found = audited(corpus)
    rows = [*found.rows("offset_commits"), *found.rows("group_records")]
    for each in decoded(corpus).progress:
        groups = {row["group_id"] for row in rows if row["offsets_partition"] == each.offsets_partition}
        assert each.partition_counts == fitting_partition_counts(groups, each.offsets_partition)
