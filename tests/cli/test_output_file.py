"""Files that commands write: complete or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kgroups_spark.cli.output import require_place, write_file
from kgroups_spark.errors import KgroupsError, UsageError


def test_a_page_replaces_an_older_one(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    output.write_bytes(b"older and longer")
    write_file(str(output), b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"report.html": b"new"}


def test_a_failed_write_keeps_the_older_page_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "report.html"
    output.write_bytes(b"older")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(KgroupsError, match=r"report\.html could not be written: No space left on device"):
        write_file(str(output), b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"report.html": b"older"}


def test_a_symlink_planted_at_the_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    output = tmp_path / "report.html"
    for name in (f".report.html.{os.getpid()}", ".report.html.00"):
        (tmp_path / name).symlink_to(theirs)
    write_file(str(output), b"new")
    assert (output.read_bytes(), theirs.read_bytes()) == (b"new", b"theirs")
    monkeypatch.setattr("kgroups_spark.cli.output.secrets.token_hex", lambda _: "00")
    with pytest.raises(KgroupsError, match="File exists"):
        write_file(str(output), b"newer")
    assert (output.read_bytes(), theirs.read_bytes()) == (b"new", b"theirs")
    assert (tmp_path / ".report.html.00").is_symlink()


def test_the_umask_decides_who_may_read_a_page(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(str(tmp_path / "report.html"), b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o640


def test_an_interruption_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(str(tmp_path / "report.html"), b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_uri_is_written_by_pyarrow(tmp_path: Path) -> None:
    output = (tmp_path / "report.html").as_uri()
    require_place(output, "x")
    write_file(output, b"new")
    assert (tmp_path / "report.html").read_bytes() == b"new"
    with pytest.raises(KgroupsError, match="gopher://host/x could not be written: "):
        write_file("gopher://host/x", b"new")


@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_is_written_and_stays_a_pipe(tmp_path: Path, is_link: bool) -> None:
    """As /dev/stdout and /dev/null, which root could replace by a file."""
    pipe = output = tmp_path / "pipe"
    os.mkfifo(pipe)
    if is_link:
        output = tmp_path / "link"
        output.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        require_place(str(output), "x")
        write_file(str(output), b"new")
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert (pipe.is_fifo(), output.is_symlink()) == (True, is_link)


@pytest.mark.parametrize("older", [b"older and longer", None])
def test_a_link_stays_and_its_target_is_written(tmp_path: Path, older: bytes | None) -> None:
    """As a web server's folder has them."""
    target, link = tmp_path / "srv" / "page.html", tmp_path / "report.html"
    target.parent.mkdir()
    if older is not None:
        target.write_bytes(older)
    link.symlink_to(Path("srv") / "page.html")
    require_place(str(link), "x")
    write_file(str(link), b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")
    assert [path.name for path in target.parent.iterdir()] == ["page.html"]
    link.unlink()
    link.symlink_to(tmp_path / "gone" / "page.html")
    with pytest.raises(UsageError, match=f"no folder {tmp_path}/gone; create it first"):
        require_place(str(link), "x")


def test_a_link_among_the_devices_stays_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /dev/stdout, where stdout is a file."""
    monkeypatch.setattr("kgroups_spark.cli.output._DEVICES", tmp_path / "dev")
    (tmp_path / "dev").mkdir()
    stdout, target = tmp_path / "dev" / "stdout", tmp_path / "page.html"
    target.write_bytes(b"older and longer")
    stdout.symlink_to(target)
    require_place(str(stdout), "x")
    write_file(str(stdout), b"new")
    assert (stdout.is_symlink(), target.read_bytes()) == (True, b"new")


def test_a_plain_file_among_the_devices_is_written_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those in /dev/shm."""
    monkeypatch.setattr("kgroups_spark.cli.output._DEVICES", tmp_path)
    test_a_failed_write_keeps_the_older_page_and_leaves_nothing_else(tmp_path, monkeypatch)


def test_an_unusable_output_path_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is a folder; name a file in it: .*/x\.csv"):
        require_place(str(tmp_path), "x.csv")
    with pytest.raises(UsageError, match=r"no folder .*; create it first"):
        require_place(str(tmp_path / "no" / "x.csv"), "x.csv")


def test_a_dash_is_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    require_place("-", "x")
    write_file("-", b"new")
    assert (capfdbinary.readouterr().out, list(tmp_path.iterdir())) == (b"new", [])
