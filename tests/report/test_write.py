"""The file of the report: all of it or none."""

from __future__ import annotations

import os
import stat
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


def test_a_link_that_somebody_has_put_in_the_way_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    output = tmp_path / "report.html"
    for name in (f".report.html.{os.getpid()}", ".report.html.00"):
        (tmp_path / name).symlink_to(theirs)
    _write(output, b"new")
    assert (output.read_bytes(), theirs.read_bytes()) == (b"new", b"theirs")
    monkeypatch.setattr("kgroups_spark.commands.report.secrets.token_hex", lambda _: "00")
    with pytest.raises(KgroupsError, match="File exists"):
        _write(output, b"newer")
    assert (output.read_bytes(), theirs.read_bytes()) == (b"new", b"theirs")
    assert (tmp_path / ".report.html.00").is_symlink()


def test_who_may_read_a_page_is_decided_by_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        _write(tmp_path / "report.html", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o640


def test_an_interruption_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path / "report.html", b"new")
    assert list(tmp_path.iterdir()) == []
