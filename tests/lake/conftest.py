"""A new lake for each test that asks for one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kgroups_spark.lake.lake import Lake


@pytest.fixture(scope="session")
def empty_lakes() -> dict[str, Path]:
    """Lakes to copy, by engine: making the tables by Spark takes a second."""
    return {}


@pytest.fixture
def lake(
    request: pytest.FixtureRequest,
    empty_lakes: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
) -> Lake:
    """By Spark for tests with Spark, else by the local engine."""
    engine = "spark" if request.node.get_closest_marker("spark") else "local"
    session = request.getfixturevalue(engine)
    if engine not in empty_lakes:
        empty_lakes[engine] = tmp_path_factory.mktemp("empty") / "lake"
        Lake.create(session, str(empty_lakes[engine]))
    # A blank and a letter outside ASCII: paths go through four libraries.
    return Lake.open(session, str(shutil.copytree(empty_lakes[engine], tmp_path / "our läke")))
