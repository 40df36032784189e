"""A new lake for each test that asks for one."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.lake.lake import Lake


@cache
def empty_lake(session: Any) -> Path:
    """A lake to copy: making its tables by Spark takes a second."""
    folder = Path(tempfile.mkdtemp()) / "lake"
    Lake.create(session, str(folder))
    atexit.register(shutil.rmtree, folder.parent)
    return folder


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """By Spark for tests with Spark, else by the local engine."""
    session = request.getfixturevalue("spark" if request.node.get_closest_marker("spark") else "local")
    # A blank and a letter outside ASCII: paths go through four libraries.
    return Lake.open(session, shutil.copytree(empty_lake(session), tmp_path / "our läke").as_posix())
