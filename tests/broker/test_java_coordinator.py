"""4.3.1, whose coordinator is the new one: groups of all protocols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.agreement import Agreement
from tests.broker.nights import COPY, LIVE, Played, played
from tests.broker.scenarios import JAVA_COORDINATOR
from tests.protocol.local_spark import LocalSpark


@pytest.fixture(scope="module")
def nights(session: Any, local: LocalSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with played({LIVE: session, COPY: local}, tmp_path_factory.mktemp("nights"), "4.3.1", JAVA_COORDINATOR) as nights:
        yield nights


class TestJavaCoordinator(Agreement):
    pass
