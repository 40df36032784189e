"""3.9.2, whose coordinator is the old one: classic groups, and cases in which it says something else than its log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.agreement import Agreement
from tests.broker.nights import COPY, LIVE, Played, played
from tests.broker.scenarios import BOTH
from tests.protocol.local_spark import LocalSpark


@pytest.fixture(scope="module")
def nights(local: LocalSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with played({LIVE: local, COPY: local}, tmp_path_factory.mktemp("nights"), "3.9.2", BOTH) as nights:
        yield nights


class TestScalaCoordinator(Agreement):
    pass
