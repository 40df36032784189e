"""Lag on a real broker: deleteRecords, a deleted topic, a paused member and a stopped consumer between two audits."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kgroups_spark.audit import run
from tests.broker.brokers import until
from tests.broker.lab import lab_of
from tests.broker.live_audits import live_audit
from tests.broker.members import SILENT
from tests.nights.lakes import rows

pytestmark = pytest.mark.in_turn("lag")

TOOL = "consumer.group.ConsumerGroupCommand"
PAUSED, STOPPED, READS_ON, LIMITED = "paused", "stopped", "reads-on", "with-a-config"
GROUPS = (PAUSED, STOPPED, READS_ON)
ASKED = [word for group in GROUPS for word in ("--group", group)]


class AnHourAgo(datetime):
    """The clock of the first audit: findings compare audits that are ten minutes apart or more."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) - timedelta(hours=1)


@pytest.fixture(scope="module")
def played(kafka_4_4):
    with lab_of(kafka_4_4) as lab:
        for topic in ("lag-grows", "lag-cut", "lag-gone"):
            lab.topic(topic, 1, records=20)
        yield lab


@pytest.fixture(scope="module")
def lake(local, played, tmp_path_factory):
    """The lake of two audits, between which it happened."""
    lab = played
    folder = tmp_path_factory.mktemp("lag") / "lake"
    paused = lab.join(PAUSED, ["lag-grows"])
    stopped = lab.join(STOPPED, ["lag-cut"])
    reads_on = lab.join(READS_ON, ["lag-grows", "lag-gone"], "consumer")
    for member, partitions in ((paused, 1), (stopped, 1), (reads_on, 2)):
        lab.await_assigned(partitions, member)
    paused.commit({("lag-grows", 0): 5})
    stopped.commit({("lag-cut", 0): 3})
    reads_on.commit({("lag-grows", 0): 20, ("lag-gone", 0): 20})
    paused.ask(lambda consumer: consumer.pause([TopicPartition("lag-grows", 0)]))
    stopped.close()
    lab.await_group(STOPPED, "classic", "Empty", 0)
    lab.group_setting(LIMITED, "consumer.session.timeout.ms", 50_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "datetime", AnHourAgo)
        live_audit(local, folder, lab.address, as_of=None)
    admin = AdminClient({"bootstrap.servers": lab.address, "broker.address.family": "v4"}, logger=SILENT)
    deleted = TopicPartition("lag-cut", 0, 8)
    admin.delete_records([deleted])[deleted].result(30)
    for topic in ("lag-grows", "lag-cut"):
        lab.produce([(topic, 0)], 10)
    lab.delete_topic("lag-gone")
    until("the topic is gone", lambda: "lag-gone" not in lab.admin.listTopics().names().get())
    paused.commit({("lag-grows", 0): 5})  # as a client does by itself that has paused
    reads_on.commit({("lag-grows", 0): 28})
    lab.await_group(READS_ON, "consumer", "Stable", 1)
    live_audit(local, folder, lab.address, as_of=None)
    return folder


def of_the_tool(lab, *options):
    """The rows that kafka-consumer-groups prints of each group, by its headings."""
    found = []
    for group in GROUPS:
        answer = lab.clients.tool(TOOL, "--bootstrap-server", lab.address, "--describe", "--group", group, *options)
        lines = [re.sub(r" +\((\d+)\)", r"(\1)", line.replace(" (ID)", "")).split() for line in answer.splitlines()]
        (heading,) = [words for words in lines if words[:1] == ["GROUP"]]
        found += [dict(zip(heading, words, strict=False)) for words in lines if words[:1] == [group]]
    return found


def test_lag_is_that_of_kafkas_tool_and_records_that_are_gone_are_counted(played, lake, json_of):
    said = {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): tuple(
            row[name] for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
        )
        for row in of_the_tool(played)
    }
    mine = {
        (row["group_id"], row["topic"], row["partition"]): row
        for row in json_of("describe", "--lake", str(lake), *ASKED)
        if row["topic"] != "lag-gone"
    }
    shown = {
        slot: tuple(
            "-" if row[name] is None else str(row[name]) for name in ("committed_offset", "log_end_offset", "lag")
        )
        for slot, row in mine.items()
    }
    assert shown == {slot: values for slot, values in said.items() if slot[1] != "lag-gone"}
    assert {slot: row["records_lost"] for slot, row in mine.items()} == {
        (PAUSED, "lag-grows", 0): 0,
        (STOPPED, "lag-cut", 0): 5,
        (READS_ON, "lag-grows", 0): 0,
    }


def test_coordinator_and_assignor_are_those_of_kafkas_tool(played, lake, json_of):
    names = ("COORDINATOR", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    said = {row["GROUP"]: tuple(row[name] for name in names) for row in of_the_tool(played, "--state")}
    mine = {
        row["group_id"]: (
            row["coordinator"].replace(" (1)", "(1)"),
            row["strategy"] or "-",
            row["state"],
            str(row["member_count"]),
        )
        for row in json_of("describe", "--lake", str(lake), *ASKED, "--state")
    }
    assert said == {group: mine[group] for group in said}
    assert {PAUSED, READS_ON} <= set(said)
    assert (mine[PAUSED][1], mine[READS_ON][1]) == ("range", "uniform")
    assert mine[STOPPED][2:] == ("Empty", "0")


def test_it_is_reported_as_it_was_and_nothing_else(lake):
    found = {(row["finding"], row["group_id"], row["topic"]) for row in rows(lake, "findings") if row["audit_id"] == 2}
    ours = {each for each in found if each[1] in (*GROUPS, LIMITED)}
    assert ours == {
        ("not_progressing", PAUSED, "lag-grows"),
        ("records_lost", STOPPED, "lag-cut"),
        ("offset_below_log_start", STOPPED, "lag-cut"),
        ("nobody_reads", STOPPED, "lag-cut"),
        ("topic_gone", READS_ON, "lag-gone"),
        ("config_without_group", LIMITED, None),
    }
    earlier = {row["finding"] for row in rows(lake, "findings") if row["audit_id"] == 1 and row["group_id"] in GROUPS}
    assert earlier == set()


def test_lag_has_a_history(lake, json_of):
    found = json_of("lag", "--lake", str(lake), "--group", PAUSED, "--group", STOPPED)
    assert [(row["group_id"], row["lag"], row["change"], row["records_lost"], row["trend"]) for row in found] == [
        (STOPPED, 27, 10, 5, "▆█"),
        (PAUSED, 25, 10, 0, "▆█"),
    ]
