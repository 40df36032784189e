"""Logs of real brokers through the whole audit: its tables agree with the brokers' answers.

The corpora were recorded from Kafka 0.11.0.3 to 4.4.0; beside each log are its broker's answers when it was asked
for its groups, members, committed and unstable offsets and producers (0.11 and 1.1 by librdkafka, whose metadata lack
the NUL byte that it appends and hides).
"""

from __future__ import annotations

import pytest

from kgroups_spark.replay.counts import counts_in_all, fitting_partition_counts
from tests.chosen import some_of
from tests.logs.corpora import ALL, ANSWERS, audited, decoded
from tests.nights import broker_answers

# 0.11's loader forgets the protocol type of an Empty group; this one became Empty while the broker was up, so it knew.
ANSWERS["legacy-0.11"]["groups"]["feed-105775"] |= {"protocol": None, "protocol_type": None, "simple": True}

of_some_releases = pytest.mark.parametrize("corpus", some_of(4, *sorted(ALL)))


# A question, and the recordings whose brokers had nothing to say about it.
QUESTIONS = {
    broker_answers.groups: (),
    broker_answers.members: (),
    broker_answers.committed_offsets: ("share-4.3", "share-4.4"),
    broker_answers.pending_offsets: None,
    broker_answers.open_transactions: None,
}


@of_some_releases
def test_tables_say_what_the_broker_says(corpus):
    def rows(name):
        found = audited(corpus).rows(name)
        if name == "committed_offsets" and corpus in ("legacy-0.11", "legacy-1.1"):
            return [{**row, "metadata": row["metadata"].rstrip("\0")} for row in found]
        return found

    for question, silent in QUESTIONS.items():
        if question is not broker_answers.open_transactions or "open_transactions" in ALL[corpus]:
            ours, said = question(rows, ALL[corpus])
            assert ours == said, question
            assert silent is None or any(said.values()) or corpus in silent, question


@of_some_releases
def test_every_record_is_in_one_table_and_every_offset_is_passed(corpus):
    result = audited(corpus)
    assert result.record_count() == result.records_read() > 0
    assert result.rows("quarantine") == []
    ends = {str(each.offsets_partition): each.end_offset for each in result.nights[-1].audit.partitions or ()}
    assert ends == {partition: end for partition, end in ALL[corpus]["ends"].items() if partition in ends}


@of_some_releases
def test_the_number_of_offsets_partitions_follows_from_all_groups_of_the_log(corpus):
    """Share groups and those that never committed, too: the next audit finds them in `groups`."""
    partitions, fitting = len(ALL[corpus]["ends"]), [each.partition_counts for each in decoded(corpus).progress]
    assert all(partitions in counts for counts in fitting if counts)
    assert len(found := counts_in_all(fitting)) != 1 or found == {partitions}
    found = audited(corpus)
    rows = [*found.rows("offset_commits"), *found.rows("group_records")]
    for each in decoded(corpus).progress:
        groups = {row["group_id"] for row in rows if row["offsets_partition"] == each.offsets_partition}
        assert each.partition_counts == fitting_partition_counts(groups, each.offsets_partition)
