"""The live audit, the audit of a copy and the broker itself agree each night.

4.3.1 has the new coordinator and groups of all protocols, 3.9.2 the old one: classic groups, and cases in which it says
something else than its log.
"""

from __future__ import annotations

import json

import pytest

from tests.broker.lab import expected_in
from tests.broker.live_audits import ONLY_A_CLUSTER_SAYS
from tests.broker.nights import AFTER_EXPIRY, BEFORE_EXPIRY, CLUSTERS, COPY, EXPIRY, LIVE, RESTARTED, played
from tests.broker.scenarios import RETENTION_MS
from tests.chosen import marks_of
from tests.nights import broker_answers
from tests.nights.lakes import assert_every_record_is_in_one_table
from tests.nights.reported_tables import traffic_of

PARAMS = {name: pytest.param(of, marks=marks_of(name, *CLUSTERS), id=name) for name, of in CLUSTERS.items()}
EXPIRING = [PARAMS[name] for name, (_, names) in CLUSTERS.items() if names == EXPIRY]
each_lake = pytest.mark.parametrize("lake", [LIVE, COPY])

# A log alone names topics by id in some places and by name in others.
COMPARED_OTHERWISE = {*ONLY_A_CLUSTER_SAYS, "group_members", "group_traffic"}


@pytest.fixture(scope="module", params=PARAMS.values())
def nights(request, session, local, tmp_path_factory):
    """The nights of a cluster by name."""
    with played({LIVE: session, COPY: local}, tmp_path_factory.mktemp("nights"), *request.param) as nights:
        yield nights


def test_the_scenarios_reached_their_expected_states(nights):
    for name, night in nights.items():
        assert bool(night.expected) == (name != RESTARTED)
        for scenario, expected in night.expected.items():
            assert expected_in(night.answer, expected) == expected, (name, scenario)


@pytest.mark.parametrize(
    "question",
    [broker_answers.groups, broker_answers.members, broker_answers.committed_offsets, broker_answers.pending_offsets],
)
@each_lake
def test_tables_say_what_the_broker_says(nights, lake, question):
    for name, night in nights.items():
        ours, said = question(night.rows_of(lake), night.loaded)
        assert any(said.values())
        assert ours == said, name


@each_lake
def test_open_transactions_are_those_of_producers_and_of_their_coordinator(nights, lake):
    for name, night in nights.items():
        rows, answer = night.rows_of(lake), night.answer
        ours, said = broker_answers.open_transactions(rows, answer)
        assert any(said.values())
        assert ours == said, name
        open_ = producers(rows("open_transactions"))
        assert open_ == {(int(p), *each) for p, ongoing in answer["transactions"].items() for each in ongoing}, name
        assert producers(rows("pending_offsets")) <= open_


@each_lake
def test_share_groups_have_start_offsets_of_the_partitions_that_their_records_name(nights, lake):
    for name, night in nights.items():
        said = {
            group: sorted([topic, partition] for topic, partition, *_ in offsets)
            for group, offsets in night.answer["share_offsets"].items()
        }
        assert share_partitions(night.tables[lake]["group_records"]) == said, name


@each_lake
def test_audits_end_where_the_log_ends_and_keep_every_record(nights, lake):
    for name, night in nights.items():
        summary = night.summaries[lake]
        ends = {str(each.offsets_partition): each.end_offset for each in summary.audit.partitions}
        assert ends == night.answer["ends"], name
        assert not summary.lacks_records
        assert_every_record_is_in_one_table(night.folders[lake])


def test_both_lakes_are_the_same(nights):
    for name, night in nights.items():
        live, copy = (night.contents[lake] for lake in (LIVE, COPY))
        for table in live.keys() - COMPARED_OTHERWISE:
            assert live[table] == copy[table], (name, table)
        # Each audit counts what it reads. If the log moves between the two audits of a night, both are repeated.
        live_traffic, copied_traffic = (traffic_of(night.tables[lake]["group_traffic"]) for lake in (LIVE, COPY))
        assert live_traffic == copied_traffic, name
        ids = {row["topic"]: row["topic_id"] for row in night.tables[LIVE]["topics"]}
        live_members, copied = (
            sorted(
                (with_topics_completed(row, ids) for row in night.tables[lake]["group_members"]),
                key=lambda member: (member["group_id"], member["member_id"]),
            )
            for lake in (LIVE, COPY)
        )
        assert live_members == copied, name


def test_a_live_audit_also_has_the_names_and_the_ends_of_topics(nights):
    known: set[tuple[str, str]] = set()
    for name, night in nights.items():
        known |= night.answer["topic_ids"].items()
        live, copy = ({row["topic_id"]: row["topic"] for row in night.tables[lake]["topics"]} for lake in (LIVE, COPY))
        assert live.items() >= copy.items() | night.answer["topic_ids"].items(), name
        assert live.items() - copy.items() <= known, name
        assert_ends_are_those_of_the_broker(night)


def assert_ends_are_those_of_the_broker(night):
    audit_id, answer = night.summaries[LIVE].audit.audit_id, night.answer
    ends = {
        (row["topic"], row["partition"]): (row["log_start_offset"], row["log_end_offset"])
        for row in night.tables[LIVE]["topic_offsets"]
        if row["audit_id"] == audit_id
    }
    # Topics with offsets, and those of offsets that went for an unknown cause: the topic may be gone.
    removed = {
        (row["topic"], row["partition"])
        for row in night.tables[LIVE]["group_events"]
        if (row["audit_id"], row["event"], row["cause"]) == (audit_id, "offset_removed", "unknown")
    }
    topics = {row["topic"] for name in ("committed_offsets", "share_partitions") for row in night.tables[LIVE][name]}
    topics |= {topic for topic, _ in removed}
    asked = removed | {slot for slot in answer["log_offsets"] if slot[0] in topics}
    assert ends == {slot: answer["log_offsets"].get(slot, (None, None)) for slot in asked}
    assert night.contents[COPY]["topic_offsets"] == []


@pytest.mark.parametrize("nights", EXPIRING, indirect=True)
@each_lake
def test_offsets_and_groups_expire_as_foreseen(nights, lake):
    before, after = nights[BEFORE_EXPIRY], nights[AFTER_EXPIRY]
    there, left = (
        {slot(row) for row in night.tables[lake]["committed_offsets"] if row["group_id"] != "fresh"}
        for night in (before, after)
    )
    foreseen = {slot(row) for row in before.tables[lake]["offset_expiry"] if row["expires_at"] is not None}
    assert there - left == foreseen
    groups = {row["group_id"]: row["deletes_at"] for row in before.tables[lake]["group_expiry"]}
    stay = {row["group_id"] for row in after.tables[lake]["groups"]}
    assert {name for name, deletes_at in groups.items() if deletes_at is not None} == groups.keys() - stay
    summary = before.summaries[lake].audit
    assert (summary.retention_ms, summary.retention_source) == (RETENTION_MS, "broker" if lake == LIVE else "option")


def with_topics_completed(member, ids):
    """The member with names and ids of all topics, its partitions in their order, without who wrote the row."""
    names = {topic_id: name for name, topic_id in ids.items()}
    completed = {name: value for name, value in member.items() if name != "audit_id"}
    for name in ("assigned_partitions", "pending_revocation_partitions", "target_partitions"):
        parts = [
            {
                **part,
                "topic": part["topic"] or names[part["topic_id"]],
                "topic_id": part["topic_id"] or ids[part["topic"]],
            }
            for part in member[name] or ()
        ]
        completed[name] = member[name] and sorted(parts, key=lambda part: (part["topic"], part["partition"]))
    return completed


def producers(rows):
    """Offsets partition, id and epoch."""
    return {(row["offsets_partition"], row["producer_id"], row["producer_epoch"]) for row in rows}


def share_partitions(records):
    """Topics and partitions that the last ShareGroupStatePartitionMetadata of each group calls initialized."""
    groups = {}
    for row in sorted(records, key=lambda row: row["log_offset"]):
        if row["record_name"] == "ShareGroupMetadata" and row["value"] is not None:
            groups.setdefault(row["group_id"], [])
        if row["record_name"] == "ShareGroupMetadata" and row["value"] is None:
            groups.pop(row["group_id"], None)
        if row["record_name"] == "ShareGroupStatePartitionMetadata" and row["value"] is not None:
            topics = json.loads(row["value"])["initializedTopics"]
            groups[row["group_id"]] = sorted([each["topicName"], p] for each in topics for p in each["partitions"])
    return groups


def slot(row):
    return row["group_id"], row["topic"], row["partition"]
