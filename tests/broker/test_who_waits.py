"""Members that wait for others, why members left, and which groups can move to KIP-848's protocol, on a real broker:
heartbeat by heartbeat, and in the broker's own words."""

from __future__ import annotations

import base64

import pytest

from kgroups_spark.audit.options import STATE_LOGS
from kgroups_spark.sql.by_duckdb import duckdb_reader
from kgroups_spark.sql.reader import about_waiting
from tests.broker.brokers import Brokers, until
from tests.broker.heartbeats import AT_ONCE_MS, IMPATIENT_MS, IS_AWAY, PATIENT_MS, Story
from tests.broker.lab import SHORT_MS, at, lab_of
from tests.broker.live_audits import live_audit
from tests.findings.record_bytes import blob

pytestmark = pytest.mark.in_turn("members that wait")

POLICY = "group.consumer.migration.policy"
# A coordinator's answer to a member of KIP-848, by our reason.
WORDS = {
    None: "",
    "no_members": "",
    "protocol_type": "does not use the consumer embedded protocol",
    "size": "exceeds the consumer group maximum size",
    "policy": "online upgrade is disabled",
    "unreadable_subscription": "malformed",
    "user_data": "unsupported custom assignor",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A broker that lets a group of KIP-848 have three members."""
    folder = tmp_path_factory.mktemp("waits")
    with Brokers("4.3.1", folder / "brokers", {"group.consumer.max.size": "3"}) as brokers, lab_of(brokers) as lab:
        yield lab


def audited(local, lab, folder):
    live_audit(local, folder, lab.address, include=STATE_LOGS, as_of=None)
    return duckdb_reader(str(folder), must=True)


def reconciling(lab, name, rebalance_timeout_ms):
    """c waits for a partition that a does not give up."""
    story = Story(lab, name, AT_ONCE_MS)
    story.begins("b")
    story.joins("a", rebalance_timeout_ms=rebalance_timeout_ms)
    story.is_assigned("a", 1)
    story.beats("b", "b", "a")
    story.joins("c")
    story.is_assigned("c", 2)
    story.beats("a", "b", "b", "c")
    return story


def test_a_member_whose_revocation_blocks(local, lab, tmp_path):
    patient = reconciling(lab, "patient", PATIENT_MS)
    impatient = reconciling(lab, "impatient", IMPATIENT_MS)
    until("a is put out", lambda: "a" not in impatient.reported().members)
    impatient.leaves("c")
    lake = audited(local, lab, tmp_path / "lake")
    reported = patient.reported().members
    wanted = {(who, p) for who, each in reported.items() for p in {*each.target} - {*each.assigned}}
    rows = lake.sql("SELECT * FROM waiting_partitions WHERE group_id = 'patient'")
    assert {(row["wanted_by"], row["partition"]) for row in rows} == wanted
    (row,) = rows
    assert (row["topic"], row["held_by"]) == ("patient", "a") and row["partition"] in reported["a"].assigned
    assert (row["out_by"] - row["revoking_since"]).total_seconds() * 1000 == PATIENT_MS
    (line,) = about_waiting(lake, ["patient"])
    assert line.startswith(f"Group 'patient': c waits for patient-{row['partition']}, held by a, revoking for ")
    assert ", out in " in line
    left = {
        row["member_id"]: row["cause"]
        for row in lake.sql("SELECT * FROM all_events WHERE event = 'member_left' AND group_id = 'impatient'")
    }
    assert left == {"a": "probably_put_out_while_revoking", "c": "probably_left"}
    patient.ends()
    assert about_waiting(audited(local, lab, tmp_path / "lake"), ["patient"]) == []


def test_a_static_member_away_replaced_and_expired(local, lab, tmp_path):
    back, lost = (Story(lab, name) for name in ("static-back", "static-lost"))
    back.begins("one", "i")
    back.leaves("one", IS_AWAY, "i")
    back.joins("other", "i")
    lab.group_setting("static-lost", "consumer.session.timeout.ms", 3 * SHORT_MS)
    lost.begins("one", "i")
    lost.leaves("one", IS_AWAY, "i")
    until("the session ends", lambda: lost.reported().state == "Empty")
    lake = audited(local, lab, tmp_path / "lake")
    events = lake.sql(
        "SELECT * FROM all_events WHERE group_id LIKE 'static-%' AND event IN ('member_left', 'member_replaced')"
    )
    assert {(row["group_id"], row["event"], row["cause"]) for row in events} == {
        ("static-back", "member_replaced", "replaced"),
        ("static-lost", "member_left", "static_expired"),
    }
    back.ends()


def test_the_next_owner_reads_again_what_came_after_the_last_commit(local, lab, tmp_path):
    slots = lab.topic("handed", 4)
    first = lab.join("handed", ["handed"], "consumer")
    lab.await_assigned(4, first)
    first.commit(at(slots, 10))
    second = lab.join("handed", ["handed"], "consumer")
    lab.await_assigned(4, first, second)
    lake = audited(local, lab, tmp_path / "lake")
    rows = lake.sql("SELECT * FROM handovers WHERE group_id = 'handed'")
    assert sorted((row["topic"], row["partition"]) for row in rows) == second.assignment()
    assert all(row["committed_offset"] == 10 + row["partition"] and row["since_last_commit_ms"] >= 0 for row in rows)
    times = lake.sql("SELECT rebalance_timestamp FROM rebalances WHERE group_id = 'handed'")
    assert len(times) >= 2 and all(row["rebalance_timestamp"] is not None for row in times)
    for member in (first, second):
        member.close()


def joins_by_hand(lab, group, kind, metadata, assignment):
    """The only member of a classic group says this of itself, and assigns itself that."""
    of_group = {"groupId": group, "memberId": ""}
    protocols = [{"name": "range", "metadata": base64.b64encode(metadata).decode()}]
    timeouts = {"sessionTimeoutMs": 1_000_000, "rebalanceTimeoutMs": 1_000_000}
    joined = lab.clients.request("JoinGroup", 2, **of_group, **timeouts, protocolType=kind, protocols=protocols)
    assert joined["errorCode"] == 0, joined
    assigned = [{"memberId": joined["memberId"], "assignment": base64.b64encode(assignment).decode()}]
    member = {"groupId": group, "memberId": joined["memberId"], "generationId": joined["generationId"]}
    synced = lab.clients.request("SyncGroup", 2, **member, assignments=assigned)
    assert synced["errorCode"] == 0, synced


def classic_groups(lab, name):
    """A group of each kind, and why it does not convert."""
    slots = lab.topic(name, 4)
    topics, subscribed = [name], blob("ConsumerProtocolSubscription", {"topics": [name], "userData": None})
    assigned = {"assignedPartitions": [{"topic": name, "partitions": [0]}]}
    plain, with_data = (blob("ConsumerProtocolAssignment", {**assigned, "userData": data}) for data in (None, b"mine"))
    joins_by_hand(lab, f"{name}-online", "consumer", subscribed, plain)
    joins_by_hand(lab, f"{name}-connect", "connect", b"?", b"?")
    joins_by_hand(lab, f"{name}-custom", "consumer", subscribed, with_data)
    joins_by_hand(lab, f"{name}-garbled", "consumer", b"\x00\x00\x00", plain)
    for _ in range(4):
        lab.join(f"{name}-large", topics)
    lab.await_group(f"{name}-large", "classic", "Stable", 4)
    lab.alter(f"{name}-empty", at(slots, 5))
    return {
        f"{name}-online": None,
        f"{name}-connect": "protocol_type",
        f"{name}-custom": "user_data",
        f"{name}-garbled": "unreadable_subscription",
        f"{name}-large": "size",
        f"{name}-empty": "no_members",
    }


def answered(lab, group, topic):
    """The answer to a member of KIP-848 that joins the group."""
    names = ("instanceId", "rackId", "subscribedTopicRegex", "serverAssignor")
    member = {"groupId": group, "memberId": f"new-in-{group}", "memberEpoch": 0, "rebalanceTimeoutMs": PATIENT_MS}
    sent = {**dict.fromkeys(names), **member, "subscribedTopicNames": [topic], "topicPartitions": []}
    return lab.clients.request("ConsumerGroupHeartbeat", 1, **sent)


def assert_the_broker_says_so(lab, lake, topic, reasons):
    rows = {row["group_id"]: row for row in lake.sql("SELECT * FROM migration")}
    assert {group: rows[group]["reason"] for group in reasons} == reasons
    for group, reason in reasons.items():
        answer = answered(lab, group, topic)
        is_let_in = rows[group]["converts"] == "online" or rows[group]["state"] == "Empty"
        assert (answer["errorCode"] == 0) == is_let_in, answer
        # A broker looks at its policy first.
        said = answer["errorMessage"] or ""
        assert WORDS[reason] in said or (WORDS["policy"] in said and topic == "stays"), answer


def test_a_member_of_kip_848_is_refused_by_the_groups_that_do_not_convert(local, lab, tmp_path):
    reasons = classic_groups(lab, "moves")
    lake = audited(local, lab, tmp_path / "lake")
    assert_the_broker_says_so(lab, lake, "moves", reasons)
    lab.close()
    lab.brokers.broker.restart({POLICY: "downgrade"})
    lab.await_coordinator()
    reasons = classic_groups(lab, "stays")
    reasons |= {f"stays-{kind}": "policy" for kind in ("online", "custom", "garbled")}
    assert_the_broker_says_so(lab, audited(local, lab, tmp_path / "lake"), "stays", reasons)
