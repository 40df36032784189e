"""A cluster of fake brokers that know each other."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.sources.fake_broker import FakeBroker, Metadata


@pytest.fixture
def metadata():
    return Metadata()


@pytest.fixture
def start(metadata):
    """Starts a broker of the cluster, and ends it with the test."""
    with ExitStack() as stack:

        def start_broker(answers=None, versions=None):
            broker = stack.enter_context(FakeBroker({"Metadata": metadata, **(answers or {})}, versions))
            metadata.brokers[len(metadata.brokers) + 1] = broker
            return broker

        yield start_broker
