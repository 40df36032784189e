"""Why this project fetches batches itself: what a plain consumer of __consumer_offsets takes for committed.

And what Kafka's own tools make of what `kgroups` writes for them: offsets that were exported are imported, an open
transaction is ended.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.main import main
from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.lake.local import Local
from tests.broker.answers import Asking
from tests.broker.brokers import Brokers, until
from tests.broker.java_clients import JavaClients
from tests.broker.lab import Lab
from tests.nights.lakes import rows

pytestmark = pytest.mark.spark

GROUP, TOPIC = "paid-orders", "orders"
Seen = dict[tuple[str, int], int]
Offsets = dict[tuple[str, int], int]
# Committed by a plain commit, inside a transaction that was aborted, and inside one that is open.
COMMITTED, ABORTED, OPEN = 5, 1000, 2000


@pytest.fixture(scope="module")
def lab(kafka_4_3: Brokers) -> Iterator[Lab]:
    """Partition 0 has a plain commit and an aborted one after it, partition 1 one that is open."""
    with JavaClients(kafka_4_3.address) as clients:
        lab = Lab(kafka_4_3, clients)
        first, second = lab.topic(TOPIC, 2)
        lab.alter(GROUP, {first: COMMITTED})
        aborted, open_ = lab.transactions("aborted"), lab.transactions("open")
        aborted.begin()
        aborted.send(GROUP, {first: ABORTED})
        aborted.abort()
        lab.await_transaction("aborted", "CompleteAbort")
        open_.begin()
        open_.send(GROUP, {second: OPEN})
        yield lab
        open_.abort()


@pytest.fixture(scope="module")
def lake(local: Local, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without `__transaction_state`: age alone shows what may hang."""
    folder = tmp_path_factory.mktemp("plain_consumers") / "lake"
    run_audit(local, AuditOptions(lake=str(folder), client=client_properties(lab.address, {}), include=()))
    return folder


def of_the_group(lake: Path, table: str) -> list[dict[str, Any]]:
    return [row for row in rows(lake, table) if row["group_id"] == GROUP]


def test_an_aborted_commit_is_never_committed(lake: Path) -> None:
    committed = [(row["partition"], row["committed_offset"]) for row in of_the_group(lake, "committed_offsets")]
    assert committed == [(0, COMMITTED)]
    outcomes = {row["committed_offset"]: row["outcome"] for row in of_the_group(lake, "offset_commits")}
    assert outcomes == {COMMITTED: None, ABORTED: "aborted", OPEN: None}  # null: no transaction, or no end of it


def test_an_open_commit_is_pending_and_its_producer_is_known(lake: Path, lab: Lab) -> None:
    (pending,) = of_the_group(lake, "pending_offsets")
    assert (pending["topic"], pending["partition"], pending["committed_offset"]) == (TOPIC, 1, OPEN)
    transaction = lab.admin.describeTransactions(["open"]).description("open").get()
    assert (pending["producer_id"], pending["producer_epoch"]) == (
        transaction.producerId(),
        transaction.producerEpoch(),
    )
    assert Asking(lab.clients).unstable(GROUP, [(TOPIC, 0), (TOPIC, 1)]) == [[TOPIC, 1]]


# Kafka's tool takes names with all of what CSV has to quote.
READ_TOPIC, NAMES = "read", ("several", 'a, "b"', " ü#; ")


@pytest.fixture(scope="module")
def gone(lab: Lab) -> tuple[int, dict[str, Offsets], dict[str, Offsets]]:
    """Groups that committed twice and were deleted: a moment between, and what each had before it and at the end."""
    slots = lab.topic(READ_TOPIC, 3, records=90)
    first: dict[str, Offsets] = {}
    last: dict[str, Offsets] = {}
    for number, group in enumerate(NAMES):
        first[group] = {slot: 10 * number + slot[1] for slot in slots[:2]}
        last[group] = {slot: 50 + 10 * number + slot[1] for slot in slots}
        lab.alter(group, first[group])
    time.sleep(0.01)
    between = round(time.time() * 1000)
    time.sleep(0.01)
    for group in NAMES:
        lab.alter(group, last[group])
        time.sleep(0.01)  # as of a moment between the last commit and the removal there is something between them
        lab.delete_group(group)
    return between, first, last


@pytest.fixture(scope="module")
def lake_without_them(local: Local, lab: Lab, gone: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "lake"
    run_audit(local, AuditOptions(lake=str(folder), client=client_properties(lab.address, {})))
    return folder


def imported(lab: Lab, file: Path, groups: tuple[str, ...]) -> dict[str, Offsets]:
    """The offsets of the groups after Kafka's tool has imported the file. The groups are then deleted again."""
    named = [word for group in groups for word in ("--group", group)]
    said = lab.clients.tool(
        "consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", lab.address, *named),
        *("--reset-offsets", "--from-file", str(file), "--execute"),
    )
    assert ("OffsetsUtils.parseResetPlan" in said) == (len(groups) > 1)  # as export-offsets says
    asked = Asking(lab.clients)
    found = {group: {(row[0], row[1]): row[2] for row in asked.committed(group)} for group in groups}
    for group in groups:
        lab.delete_group(group)
    return found


def test_kafkas_tool_brings_back_several_groups_as_of_a_moment(
    lab: Lab, gone: Any, lake_without_them: Path, tmp_path: Path
) -> None:
    between, first, _ = gone
    file = tmp_path / "offsets.csv"
    command = ["export-offsets", "--lake", str(lake_without_them), "--as-of", str(between), "--output", str(file)]
    assert main([*command, *(word for group in NAMES for word in ("--group", group))]) == 0
    assert imported(lab, file, NAMES) == first


@pytest.mark.parametrize("group", NAMES)
def test_the_command_that_describe_prints_brings_back_a_removed_group(
    lab: Lab, gone: Any, lake_without_them: Path, tmp_path: Path, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, last = gone
    assert main(["describe", "--lake", str(lake_without_them), "--group", group]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "kgroups export-offsets" in line]
    words = shlex.split(line[line.index("kgroups export-offsets") :])
    file = tmp_path / "offsets.csv"
    words[words.index("--output") + 1] = str(file)
    assert main(words[1:]) == 0
    assert imported(lab, file, (group,)) == {group: last[group]}


def test_the_command_that_pending_prints_ends_the_transaction(
    lab: Lab, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Last of all here: no other test finds it open."""
    capsys.readouterr()
    assert main(["pending", "--lake", str(lake), "--max-transaction-timeout", "0ms"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if " abort " in line]
    words = shlex.split(line[line.index("kafka-transactions.sh") :])
    words[words.index("HOST:PORT")] = lab.address
    assert Asking(lab.clients).unstable(GROUP, [(TOPIC, 1)]) == [[TOPIC, 1]]
    lab.clients.tool("TransactionsCommand", *words[1:])
    until("no offset is pending", lambda: Asking(lab.clients).unstable(GROUP, [(TOPIC, 1)]) == [])
