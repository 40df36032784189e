"""The file of the report: all of it or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroups_spark.commands.report import _write
from kgroups_spark.errors import KgroupsError


def test_a_page_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    output.write_bytes(b"older and longer")
    _write(output, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"report.html": b"new"}


def test_what_cannot_be_written_leaves_the_older_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "report.html"
    output.write_bytes(b"older")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(KgroupsError, match=r"could not be written to .*report\.html: No space left on device"):
        _write(output, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"report.html": b"older"}
