"""Live audits of the share and the transaction coordinators' logs, against what the brokers' Admin API says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit.options import STATE_LOGS
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli import main
from kgroups_spark.share_coordinator.listed import share_lag
from tests.audit.lakes import contents, rows
from tests.broker.brokers import Brokers, until
from tests.broker.java_clients import JavaClients
from tests.broker.lab import Lab
from tests.broker.live_audits import live_audit
from tests.protocol.local_spark import LocalSpark

SHARE, RESET, TOPIC = "shared-jobs", "shared-again", "shared-topic"
STATE_TABLES = ("share_group_state_records", "transaction_state_records", "share_partitions", "share_batches")
STATE_TABLES += ("transactional_ids", "state_events")


# 3.9.2 has no share groups, and its transaction coordinator is that of transactions version 1.
RELEASES = ("4.3.1", "4.4.0", "3.9.2")
has_share_groups = pytest.mark.parametrize("lab", RELEASES[:2], indirect=True, scope="module")


@pytest.fixture(scope="module", params=RELEASES)
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A share group that has read everything and left, one that Admin has reset; transactions of every end."""
    release = request.param.rpartition(".")[0].replace(".", "_")
    brokers: Brokers = request.getfixturevalue(f"kafka_{release}")
    with JavaClients(brokers.address) as clients:
        lab = Lab(brokers, clients)
        slots = lab.topic(TOPIC, 2, records=20)
        for group in (SHARE, RESET) if request.param in RELEASES[:2] else ():
            lab.group_setting(group, "share.auto.offset.reset", "earliest")
            member = lab.share(group, [TOPIC])
            until("the share group has read everything", lambda member=member: member.read >= 40)
            member.close()
            lab.await_group(group, "share", "Empty", 0)
            if group == RESET:
                lab.alter_share(RESET, {slots[0]: 7})
        for name in ("state-committed", "state-aborted", "state-open"):
            producer = lab.transactions(name)
            producer.begin()
            producer.send("state-group", {slots[0]: 5})
            if name == "state-committed":
                producer.commit()
            elif name == "state-aborted":
                producer.abort()
        lab.await_transaction("state-committed", "CompleteCommit")
        lab.await_transaction("state-aborted", "CompleteAbort")
        lab.transactions("state-empty")
        yield lab
        producer.abort()


@pytest.fixture(scope="module")
def lake(local: LocalSpark, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state_logs") / "lake"
    live_audit(local, folder, lab.address, include=STATE_LOGS)
    return folder


def described_transactions(lab: Lab) -> dict[str, tuple[Any, ...]]:
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


def test_transactional_ids_are_those_that_the_brokers_describe(lab: Lab, lake: Path) -> None:
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
    told = described_transactions(lab)
    assert mine == told
    states = {name: one[2] for name, one in told.items() if name.startswith("state-")}
    assert states == {
        "state-committed": "CompleteCommit",
        "state-aborted": "CompleteAbort",
        "state-open": "Ongoing",
        "state-empty": "Empty",
    }


@has_share_groups
def test_share_partitions_are_those_that_the_brokers_list(lab: Lab, lake: Path) -> None:
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
    spec = lab.clients.kafka.clients.admin.ListShareGroupOffsetsSpec()
    told = {}
    for group in (SHARE, RESET):
        for slot, offset in lab.admin.listShareGroupOffsets({group: spec}).all().get()[group].items():
            epoch, lag = offset.leaderEpoch(), offset.lag()
            key = (group, slot.topic(), slot.partition())
            told[key] = (offset.startOffset(), epoch.get() if epoch.isPresent() else None, lag.get())
    assert mine == told
    assert mine[RESET, TOPIC, 0][0] == 7
    assert {row["init_state"] for row in found} == {"initialized"}


@has_share_groups
def test_describe_prints_what_kafkas_tool_prints(lab: Lab, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = ["--bootstrap-server", lab.address]
    capsys.readouterr()
    for group in (SHARE, RESET):
        theirs = lab.clients.tool("consumer.group.ShareGroupCommand", *address, "--describe", "--group", group)
        assert main(["describe", "--lake", str(lake), "--group", group]) == 0
        ours = capsys.readouterr().out
        kafkas = sorted(line.split() for line in theirs.splitlines() if line.startswith(("GROUP ", group)))
        assert sorted(line.split() for line in ours.splitlines()) == kafkas
        assert len(kafkas) == 3


def test_what_the_coordinator_lists_does_not_hang_however_long_it_is_open(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pending", "--lake", str(lake), "--hanging", "--max-transaction-timeout", "0ms"]) == 0
    assert "0 hanging by Kafka's rule" in capsys.readouterr().err
    (row,) = [row for row in rows(lake, "open_transactions") if row["transactional_id"] == "state-open"]
    assert row["group_ids"] == ["state-group"]


def test_an_audit_of_the_copied_logs_says_the_same(local: LocalSpark, lab: Lab, lake: Path, tmp_path: Path) -> None:
    for folder in Path(lab.brokers.broker.data).glob("__*"):
        shutil.copytree(folder, tmp_path / "copy" / folder.name)
    copied = tmp_path / "lake"
    release = lab.release.rpartition(".")[0]
    run_audit(local, AuditOptions(str(copied), [str(tmp_path / "copy")], release_version=release, writer="parts"))
    assert contents(copied, list(STATE_TABLES)) == contents(lake, list(STATE_TABLES))
