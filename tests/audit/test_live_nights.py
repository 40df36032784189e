"""Audits of fake brokers that have logs, from the claim to the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.logs.planned_batches import commits
from tests.nights.live_nights import OFFSETS, LiveNights, Log, LogBrokers
from tests.records.build import batch
from tests.transaction_coordinator import histories as transactions

Live = Callable[..., LiveNights]


def commit_batches(count: int, start: int = 0) -> list[bytes]:
    """Batches of three commits each."""
    return [batch(start + 3 * number, commits(3), leader_epoch=1) for number in range(count)]


def transaction_batch(offset: int, name: str) -> bytes:
    value = transactions.value_bytes(transactions.value(1, [("orders", [0])]), 1)
    return batch(offset, [(transactions.key_bytes(name), value)], leader_epoch=1)


@pytest.fixture
def live() -> Iterator[Live]:
    with ExitStack() as stack:

        def start(nodes: int = 1, **topics: list[Log]) -> LiveNights:
            return LiveNights(stack.enter_context(LogBrokers(topics, nodes)))

        yield start


def two_logs(**of_second: Any) -> list[Log]:
    return [Log(commit_batches(3)), Log(commit_batches(3), **of_second)]


def test_a_limit_of_bytes_needs_no_new_offsets(live: Live) -> None:
    """The other logs are read by their own tasks, among which the limit is shared."""
    nights = live(**{OFFSETS: two_logs()})
    nights.night()
    nights.brokers.topics["__transaction_state"] = [Log([transaction_batch(0, "a")])]
    nights.night(include=["transaction-state"], max_bytes_per_second=1_000_000)
    assert [row["transactional_id"] for row in nights.lake.rows("transactional_ids")] == ["a"]
