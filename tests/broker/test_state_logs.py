"""Live audits of all three coordinators' logs, against the brokers' answers: of share groups, of transactions, and of
groups that rebalance, heartbeat by heartbeat."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import kgroups_spark
from kgroups_spark.audit.options import STATE_LOGS
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.main import main
from kgroups_spark.findings import finders
from tests.broker.answers import Asking
from tests.broker.brokers import Brokers, until
from tests.broker.heartbeats import MemberReported, Reported, play_the_stories
from tests.broker.lab import lab_of
from tests.broker.live_audits import live_audit
from tests.broker.producers import transactions_of_every_end, transactions_that_hang
from tests.chosen import marks_of
from tests.nights.lakes import contents, rows
from tests.views.lag_cases import share_lag

pytestmark = pytest.mark.in_turn("logs of all coordinators")

SHARE, RESET, TOPIC = "shared-jobs", "shared-again", "shared-topic"
STATE_TABLES = ("share_group_state_records", "transaction_state_records", "share_partitions", "share_batches")
STATE_TABLES += ("transactional_ids", "state_events")


# 3.9.2 has neither share groups nor those of KIP-848, and its transactions are of version 1. `make test` takes the
# newest release or the oldest one, by the seed.
ENDS = ("4.4.0", "3.9.2")
NEWEST, OLDEST = (pytest.param(release, marks=marks_of(release, *ENDS)) for release in ENDS)
KAFKA_4 = (pytest.param("4.3.1", marks=pytest.mark.soak), NEWEST)
of_kafka_4 = pytest.mark.parametrize("lab", KAFKA_4, indirect=True, scope="module")


@pytest.fixture(scope="module", params=[*KAFKA_4, OLDEST])
def lab(request):
    """A share group that has read everything and left, one that Admin has reset; transactions of every end."""
    release = request.param.rpartition(".")[0].replace(".", "_")
    brokers: Brokers = request.getfixturevalue(f"kafka_{release}")
    with lab_of(brokers) as lab:
        slots = lab.topic(TOPIC, 2, records=20)
        for group in (SHARE, RESET) if request.param >= "4" else ():
            lab.group_setting(group, "share.auto.offset.reset", "earliest")
            member = lab.share(group, [TOPIC])
            until("the share group has read everything", lambda member=member: member.read >= 40)
            member.close()
            lab.await_group(group, "share", "Empty", 0)
        with transactions_of_every_end(lab, slots[0]):
            yield lab


@pytest.fixture(scope="module")
def before_reset(lab):
    """A moment in ms, and the offsets that the brokers listed of RESET then. Afterwards Admin resets one of them."""
    if lab.is_scala:
        return 0, {}
    listed = listed_share_offsets(lab, RESET)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.002)  # the log's times are in ms
    lab.alter_share(RESET, {(TOPIC, 0): 7})
    return moment, listed


@pytest.fixture(scope="module")
def stories(lab):
    """Rebalances of KIP-848 groups, as their coordinator described them."""
    return [] if lab.is_scala else play_the_stories(lab)


@pytest.fixture(scope="module")
def hanging(lab):
    """Transactions made to hang: offsets partition and producer id, and why."""
    with transactions_that_hang(lab, (TOPIC, 0)) as hanging:
        yield hanging


@pytest.fixture(scope="module")
def lake(local, lab, before_reset, hanging, stories, tmp_path_factory):
    """The lake of an audit. It takes a transaction that has been open for a millisecond as open for too long."""
    folder = tmp_path_factory.mktemp("state_logs") / "lake"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finders, "MAX_TRANSACTION_TIMEOUT_MS", 0)
        live_audit(local, folder, lab.address, include=STATE_LOGS, as_of=None)
    return folder


def described_transactions(lab):
    names = [each.transactionalId() for each in lab.clients.each(lab.admin.listTransactions().all().get())]
    found = lab.admin.describeTransactions(names).all().get()
    return {
        name: (
            one.producerId(),
            one.producerEpoch(),
            str(one.state()),
            one.transactionTimeoutMs(),
            sorted((slot.topic(), slot.partition()) for slot in one.topicPartitions()),
        )
        for name in names
        for one in (found[name],)
    }


def test_transactional_ids_are_those_that_the_brokers_describe(lab, lake):
    mine = {
        row["transactional_id"]: (
            row["producer_id"],
            row["producer_epoch"],
            row["state"],
            row["timeout_ms"],
            [(each["topic"], each["partition"]) for each in row["topic_partitions"]],
        )
        for row in rows(lake, "transactional_ids")
    }
    reported = described_transactions(lab)
    assert mine == reported
    states = {name: one[2] for name, one in reported.items() if name.startswith("state-")}
    assert states == {
        "state-committed": "CompleteCommit",
        "state-aborted": "CompleteAbort",
        "state-fenced": "Empty",
        "state-timed-out": "CompleteAbort",
        "state-empty": "Empty",
        **dict.fromkeys(("state-open", "state-killed", "state-java", "state-elsewhere"), "Ongoing"),
        **({} if lab.is_scala else {"state-prepared": "Ongoing"}),
        "state-late": "CompleteCommit",
    }


@of_kafka_4
def test_share_partitions_are_those_that_the_brokers_list(lab, lake):
    ends = {(row["topic"], row["partition"]): row["log_end_offset"] for row in rows(lake, "topic_offsets")}
    found = [row for row in rows(lake, "share_partitions") if row["group_id"] in (SHARE, RESET)]
    mine = {
        (row["group_id"], row["topic"], row["partition"]): (
            row["start_offset"],
            row["leader_epoch"],
            share_lag(row["start_offset"], row["delivery_complete_count"], ends[row["topic"], row["partition"]]),
        )
        for row in found
    }
    assert mine == listed_share_offsets(lab, SHARE) | listed_share_offsets(lab, RESET)
    assert mine[RESET, TOPIC, 0][0] == 7
    assert {row["init_state"] for row in found} == {"initialized"}


def listed_share_offsets(lab, group):
    """By group, topic and partition, start offset, leader epoch and lag."""
    return {
        (group, topic, partition): tuple(rest) for topic, partition, *rest in Asking(lab.clients).share_offsets(group)
    }


@of_kafka_4
def test_describe_as_of_a_moment_has_the_start_offsets_of_that_moment(before_reset, lake, json_of):
    moment, listed = before_reset
    reported = json_of("describe", "--lake", str(lake), "--group", RESET, "--as-of", str(moment))
    assert {
        (RESET, row["topic"], row["partition"]): (row["committed_offset"], row["leader_epoch"]) for row in reported
    } == {slot: offset[:2] for slot, offset in listed.items()}
    assert listed[RESET, TOPIC, 0][0] != 7


@of_kafka_4
def test_describe_prints_what_kafkas_tool_prints(lab, lake, capsys):
    address = ["--bootstrap-server", lab.address]
    capsys.readouterr()
    for group in (SHARE, RESET):
        theirs = lab.clients.tool("consumer.group.ShareGroupCommand", *address, "--describe", "--group", group)
        assert main(["describe", "--lake", str(lake), "--group", group]) == 0
        ours = capsys.readouterr().out
        kafkas = sorted(line.split() for line in theirs.splitlines() if line.startswith(("GROUP ", group)))
        assert sorted(line.split() for line in ours.splitlines()) == kafkas
        assert len(kafkas) == 3


def test_hanging_transactions_equal_those_of_kafkas_find_hanging(lab, lake, hanging, json_of):
    scope = ["--topic", "__consumer_offsets", "--max-transaction-timeout", "0"]
    theirs = lab.clients.tool("TransactionsCommand", "--bootstrap-server", lab.address, "find-hanging", *scope)
    lines = [line.split() for line in theirs.splitlines() if line.startswith("__consumer_offsets")]
    # Topic, Partition, ProducerId, ProducerEpoch, CoordinatorEpoch, StartOffset, ...
    kafkas = {(int(each[1]), int(each[2]), int(each[5])) for each in lines}
    rows_reported = json_of(*PENDING, "0ms", "--lake", str(lake))
    mine = {row_key(row): row["verdict"] for row in rows_reported if row["is_hanging"]}
    assert set(mine) == kafkas
    assert {key[:2]: verdict for key, verdict in mine.items()} == hanging
    found = [row for row in rows(lake, "findings") if row["finding"] == "hanging_transaction"]
    assert sorted((row["offsets_partition"], row["producer_id"], row["log_offset"]) for row in found) == sorted(kafkas)
    # A transaction that its coordinator lists does not hang, however long it has been open; nor does a two-phase one,
    # which has no timeout. With a maximum of 15 minutes none hangs: each could still end.
    others = {row["transactional_id"]: row["verdict"] for row in ours(rows_reported) if not row["is_hanging"]}
    listed = dict.fromkeys(("state-open", "state-killed", "state-java", "state-elsewhere"), "listed")
    assert others == listed | ({} if lab.is_scala else {"state-prepared": "two_phase"})
    assert not any(row["is_hanging"] for row in json_of(*PENDING, "15m", "--lake", str(lake)))


PENDING = ("pending", "--max-transaction-timeout")


def ours(reported):
    """Without what other tests have done to the broker."""
    return [row for row in reported if (row["transactional_id"] or "").startswith("state-")]


def row_key(row):
    return row["offsets_partition"], row["producer_id"], row["transaction_start_offset"]


def test_the_coordinators_own_aborts_are_events(lake):
    reported = {(row["transactional_id"], row["event"]) for row in ours(rows(lake, "state_events"))}
    assert reported == {("state-timed-out", "transaction_timed_out"), ("state-fenced", "producer_fenced")}


@of_kafka_4
def test_groups_as_of_each_step_of_a_rebalance_agree_with_their_coordinator(stories, lake):
    reader = kgroups_spark.open_lake(str(lake))

    def as_of_each(function):
        steps = ", ".join(f"({number}, '{step.group}', {step.moment})" for number, step in enumerate(stories))
        asked = (
            f"(VALUES {steps}) AS steps(number, story, moment), {function}(make_timestamptz(1000 * moment)) AS reported"
        )
        return reader.sql(f"SELECT number, reported.* FROM {asked} WHERE reported.group_id = story").to_pylist()

    members: dict[int, dict[str, MemberReported]] = {number: {} for number in range(len(stories))}
    for row in as_of_each("group_members_as_of"):
        held = [*(row["assigned_partitions"] or ()), *(row["pending_revocation_partitions"] or ())]
        partitions = [sorted(each["partition"] for each in some) for some in (held, row["target_partitions"] or ())]
        members[row["number"]][row["member_id"]] = MemberReported(row["member_epoch"], *partitions)
    reported = {
        row["number"]: Reported(row["state"], row["group_epoch"], row["assignment_epoch"], members[row["number"]])
        for row in as_of_each("groups_as_of")
    }
    assert reported == {number: step.reported for number, step in enumerate(stories)}


def test_an_audit_of_the_copied_logs_agrees(local, lab, lake, tmp_path):
    for folder in Path(lab.brokers.broker.data).glob("__*"):
        shutil.copytree(folder, tmp_path / "copy" / folder.name)
    copied = tmp_path / "lake"
    release = lab.release.rpartition(".")[0]
    run_audit(local, AuditOptions(str(copied), [str(tmp_path / "copy")], release_version=release))
    assert contents(copied, list(STATE_TABLES)) == contents(lake, list(STATE_TABLES))


def test_the_command_that_pending_prints_ends_hanging_transactions(lab, lake, hanging, json_of):
    """The last test: it changes the logs."""
    said = {
        (row["offsets_partition"], row["producer_id"]): row["abort_command"]
        for row in json_of(*PENDING, "0ms", "--lake", str(lake))
    }
    assert {key for key, command in said.items() if command is not None} == set(hanging)
    before = open_on(lab)
    assert set(hanging) <= before
    key, *_ = hanging
    _, *words = said[key].replace("HOST:PORT", lab.address).split()
    lab.clients.tool("TransactionsCommand", *words)
    assert open_on(lab) == before - {key}


def open_on(lab):
    """Partition of __consumer_offsets and producer id of the transactions that are open there."""
    return {(int(number), each) for number, open_ in Asking(lab.clients).producers().items() for each, _ in open_}
