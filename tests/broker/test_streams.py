"""Applications of Kafka Streams on a broker, with both exactly-once styles and as a streams group (KIP-1071), and what
the lake reports of them. `exactly_once` is played by the client of 3.9, the last one that has it."""

from __future__ import annotations

from typing import Any

import pytest

import kgroups_spark
from kgroups_spark.audit.options import STATE_LOGS
from tests.broker.answers import Asking, while_the_log_stands_still
from tests.broker.java_clients import JavaClients
from tests.broker.lab import lab_of
from tests.broker.live_audits import live_audit

pytestmark = pytest.mark.in_turn("streams groups")

TOPIC, PARTITIONS = "streams.words", 2
BY_TASK, BY_THREAD, STREAMS = "app-by-task", "app-by-thread", "app-as-streams-group"
GROUPS = (BY_TASK, BY_THREAD, STREAMS)
Json = dict[str, Any]


@pytest.fixture(scope="module")
def played(kafka_4_3, tmp_path_factory):
    """Three applications that run, each of two threads."""
    with lab_of(kafka_4_3) as lab, JavaClients(lab.address, "3.9.2") as old_clients:
        lab.topic(TOPIC, PARTITIONS, records=10)
        folder, more = tmp_path_factory.mktemp("streams"), {"num_stream_threads": "2"}
        old_clients.streams(BY_TASK, TOPIC, "classic", folder, processing_guarantee="exactly_once", **more)
        for group, protocol in ((BY_THREAD, "classic"), (STREAMS, "streams")):
            lab.clients.streams(group, TOPIC, protocol, folder, processing_guarantee="exactly_once_v2", **more)
        for group in GROUPS:
            lab.await_committed(group, slots(group))
        yield lab


def slots(group):
    return [(name, number) for name in (TOPIC, f"{group}-by-key-repartition") for number in range(PARTITIONS)]


@pytest.fixture(scope="module")
def described(local, played, lake):
    """The broker's description of each group when the lake's audit reads its log."""

    def ask():
        asked = Asking(played.clients)
        return {"groups": {name: group for name, group in asked.groups().items() if name in GROUPS}}

    def audit():
        live_audit(local, lake, played.address, include=STATE_LOGS, as_of=None)

    groups: Json = while_the_log_stands_still(played.clients, ask, audit)["groups"]
    return groups


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return tmp_path_factory.mktemp("streams") / "lake"


def asked(lake, query):
    return kgroups_spark.open_lake(str(lake)).rows(query)


def owned(group, of_group):
    """The owner of each partition, as the broker describes it: a task has its partition of each topic it reads."""
    if group != STREAMS:
        return {(t, p): member for member, each in of_group["members"].items() for t, p in each["assigned"]}
    topics = dict(zip(of_group["topology"]["subtopologies"], (TOPIC, f"{group}-by-key-repartition"), strict=True))
    return {
        (topics[subtopology], partition): member
        for member, each in of_group["members"].items()
        for role, subtopology, partition in each["assigned_tasks"]
        if role == "active"
    }


def test_owners_are_those_that_the_broker_describes(lake, described):
    rows = asked(lake, "SELECT * FROM partition_owners WHERE valid_to IS NULL AND group_id LIKE 'app-%'")
    for group in GROUPS:
        own = [row for row in rows if row["group_id"] == group]
        found = {(row["topic"], row["partition"]): row["member_id"] for row in own}
        assert len(found) == len(own) and len(set(found.values())) == 2
        assert found == owned(group, described[group]) and found.keys() == set(slots(group)), group


def test_the_exactly_once_style_is_that_of_the_application(lake, described):
    rows = asked(lake, "SELECT * FROM eos_style WHERE group_id LIKE 'app-%'")
    assert {row["group_id"]: row["style"] for row in rows} == {
        BY_TASK: "an id per partition",
        BY_THREAD: "an id per thread",
        STREAMS: "an id per thread",
    }
    assert {row["group_id"]: row["ids"] for row in rows} == {BY_TASK: 4, BY_THREAD: 2, STREAMS: 2}
    names = asked(lake, "SELECT * FROM transaction_limits WHERE group_id LIKE 'app-%'")
    assert {row["group_id"]: row["longest_timeout_ms"] for row in names} == dict.fromkeys(GROUPS, 10_000)


def test_a_classic_group_of_streams_moves_when_empty_and_its_tasks_are_read(lake, described):
    rows = asked(lake, "SELECT * FROM migration WHERE group_id LIKE 'app-%'")
    assert {row["group_id"]: (row["converts"], row["reason"]) for row in rows} == dict.fromkeys(
        (BY_TASK, BY_THREAD), ("when empty", "user_data")
    )
    members = asked(lake, f"SELECT user_data_json FROM group_members WHERE group_id = '{BY_THREAD}'")
    assert len(members) == 2 and all("processId" in (row["user_data_json"] or "") for row in members)


def test_describe_and_lag_have_all_partitions_with_their_owners(played, lake, described, json_of):
    committed = Asking(played.clients).committed_of(GROUPS)
    for group in GROUPS:
        of_group = ("--lake", str(lake), "--group", group)
        offsets = json_of("describe", *of_group)
        found = {(row["topic"], row["partition"]): row["owner_member_id"] for row in offsets}
        assert found == owned(group, described[group])
        assert {(row["topic"], row["partition"]): row["committed_offset"] for row in offsets} == {
            (topic, partition): offset for topic, partition, offset, *_ in committed[group]
        }
        # The end has the marker of the last transaction, which no offset counts but the next one.
        assert {row["lag"] for row in offsets if row["topic"] == TOPIC} == {0}
        lags = {(row["topic"], row["partition"]): row["lag"] for row in json_of("lag", *of_group)}
        assert lags == {(row["topic"], row["partition"]): row["lag"] for row in offsets}
        [state] = json_of("describe", *of_group, "--state")
        assert (state["state"], state["member_count"]) == ("Stable", 2)


def test_nothing_is_found(lake, described):
    found = asked(lake, "SELECT finding, group_id FROM current_findings WHERE group_id LIKE 'app-%'")
    assert found == []
