"""Kafka's own tools and what `kgroups` writes for them: they import offsets, and end a transaction."""

from __future__ import annotations

import shlex
import time

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.main import main
from kgroups_spark.cluster.client_properties import client_properties
from tests.broker.answers import Asking
from tests.broker.brokers import until
from tests.broker.lab import lab_of
from tests.chosen import one_of

pytestmark = pytest.mark.in_turn("Kafka's tools")

GROUP, TOPIC = "paid-orders", "orders"
Offsets = dict[tuple[str, int], int]


@pytest.fixture(scope="module")
def lab(kafka_4_3):
    """A transaction is open."""
    with lab_of(kafka_4_3) as lab:
        _, second = lab.topic(TOPIC, 2)
        open_ = lab.transactions("open")
        open_.begin()
        open_.send(GROUP, {second: 2000})
        yield lab
        open_.abort()


@pytest.fixture(scope="module")
def lake(local, lab, tmp_path_factory):
    """Without `__transaction_state`: age alone shows what may hang."""
    folder = tmp_path_factory.mktemp("plain_consumers") / "lake"
    run_audit(local, AuditOptions(lake=str(folder), client=client_properties(lab.address, {}), include=()))
    return folder


# Kafka's tool takes names with all of what CSV has to quote.
READ_TOPIC, NAMES = "read", ("several", 'a, "b"', " ü#; ")


@pytest.fixture(scope="module")
def gone(lab):
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
def lake_without_them(local, lab, gone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "lake"
    run_audit(local, AuditOptions(lake=str(folder), client=client_properties(lab.address, {})))
    return folder


def imported(lab, file, groups):
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


def test_kafkas_tool_brings_back_several_groups_as_of_a_moment(lab, gone, lake_without_them, tmp_path):
    between, first, _ = gone
    file = tmp_path / "offsets.csv"
    command = ["export-offsets", "--lake", str(lake_without_them), "--as-of", str(between), "--output", str(file)]
    assert main([*command, *(word for group in NAMES for word in ("--group", group))]) == 0
    assert imported(lab, file, NAMES) == first


@pytest.mark.parametrize("group", one_of(*NAMES))
def test_the_command_that_describe_prints_brings_back_a_removed_group(
    lab, gone, lake_without_them, tmp_path, group, capsys
):
    _, _, last = gone
    assert main(["describe", "--lake", str(lake_without_them), "--group", group]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "kgroups export-offsets" in line]
    words = shlex.split(line[line.index("kgroups export-offsets") :])
    file = tmp_path / "offsets.csv"
    words[words.index("--output") + 1] = str(file)
    assert main(words[1:]) == 0
    assert imported(lab, file, (group,)) == {group: last[group]}


def test_the_command_that_pending_prints_ends_the_transaction(lab, lake, capsys):
    """Last of all here: no other test finds it open."""
    capsys.readouterr()
    assert main(["pending", "--lake", str(lake), "--max-transaction-timeout", "0ms"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if " abort " in line]
    words = shlex.split(line[line.index("kafka-transactions.sh") :])
    words[words.index("HOST:PORT")] = lab.address
    assert Asking(lab.clients).unstable(GROUP, [(TOPIC, 1)]) == [[TOPIC, 1]]
    lab.clients.tool("TransactionsCommand", *words[1:])
    until("no offset is pending", lambda: Asking(lab.clients).unstable(GROUP, [(TOPIC, 1)]) == [])
