"""Something happens to the broker in the middle of an audit: no record is lost or double, or one line says so.

It happens while a task of ours fetches: the proxy in front of the broker holds that fetch until it has happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.broker.brokers import Broker, Brokers
from tests.broker.live_audits import copy_audit, last_finished, live_audit, statuses
from tests.broker.proxy import Proxy, put_proxies_before
from tests.broker.small_log import SMALL_ANSWERS, copy_of_log, fill, of_the_log
from tests.nights.lakes import assert_every_record_is_in_one_table, rows
from tests.protocol.local_spark import LocalSpark

pytestmark = [pytest.mark.usefixtures("commands_have_the_session"), pytest.mark.in_turn("brokers that stop")]

# How long an audit waits for brokers that are gone: longer than a running one may take on a busy machine.
IMPATIENT = {"default.api.timeout.ms": "4000"}


@dataclass(frozen=True)
class FilledBroker:
    """`expected`: what an undisturbed audit of a copy of its log says."""

    broker: Broker
    proxy: Proxy
    expected: dict[str, list[str]]


@pytest.fixture(scope="module")
def filled(local: LocalSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledBroker]:
    folder = tmp_path_factory.mktemp("filled")
    brokers = Brokers("4.3.1", folder / "brokers", SMALL_ANSWERS)
    proxies = put_proxies_before(brokers)
    with proxies, brokers:
        fill(proxies.address)
        copy = copy_of_log(brokers.nodes, folder / "copy")
        expected = copy_audit(local, folder / "undisturbed", copy)
        assert all(expected[name] for name in ("offset_commits", "group_records", "transaction_markers"))
        yield FilledBroker(brokers.broker, proxies.each[0], expected)


@pytest.fixture(autouse=True)
def broker_is_up(filled: FilledBroker) -> None:
    """Others may have left it stopped."""
    if filled.broker.state() != "up":
        filled.broker.start()


def test_the_broker_restarts(session, filled, tmp_path):
    filled.proxy.at_fetch(4, filled.broker.restart)
    live_audit(session, tmp_path / "lake", filled.proxy.address)
    assert filled.proxy.has_happened
    assert of_the_log(tmp_path / "lake") == filled.expected
    assert_every_record_is_in_one_table(tmp_path / "lake")


def test_the_broker_goes_away_and_the_next_audit_continues(session, filled, tmp_path, audit_command):
    lake = tmp_path / "lake"
    filled.proxy.at_fetch(4, filled.broker.stop)
    said = audit_command(lake, filled.proxy.address, properties=IMPATIENT)
    assert said.code == 1
    assert said.last.startswith("kgroups: nothing could be read to its end: ")
    assert [line for line in said.lines if "Exception" in line or "Error" in line or line.startswith(" ")] == []
    assert statuses(lake) == ["running"]
    assert not any(rows(lake, name) for name in ("groups", "committed_offsets"))
    filled.broker.start()
    live_audit(session, lake, filled.proxy.address)
    assert of_the_log(lake) == filled.expected
    assert_every_record_is_in_one_table(lake)


def test_the_broker_goes_away_when_everything_is_read(session, filled, tmp_path):
    def progress(text: str) -> None:
        if text.startswith("asking for the ends of 1 topic"):
            filled.broker.stop()

    lake = tmp_path / "lake"
    live_audit(session, lake, filled.proxy.address, properties=IMPATIENT, progress=progress)
    assert of_the_log(lake) == filled.expected
    assert rows(lake, "topic_offsets") == []
    asked_for = "could not fetch log start and end of topics with committed offsets: no broker has answered in "
    assert [note for note in last_finished(lake)["notes"] if note.startswith(asked_for)] != []
