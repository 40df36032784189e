"""The line on stderr that says what a command is doing."""

from __future__ import annotations

import io
import re
import sys

import pytest

from kgroups_spark.cli.output import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def screen(written: str) -> list[str]:
    """The lines of a terminal after this text: a slow twin of the three sequences that we write."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[\d*[AJ]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            row += 1
            lines[row:] = [""]
        elif part == "\r":
            pass
        elif part.endswith("A"):
            row -= int(part[2:-1])
        elif part.endswith("J"):
            lines[row:] = [""]
        else:
            lines[row] += part
    return lines


@pytest.mark.parametrize("width", [12, 20, 200])
def test_a_narrow_terminal_shows_every_step_in_full(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress()
    for step in ("asking for the ends of 12,345 topics", "drawing", "saving the state of 50 partitions"):
        progress(step)
        lines = screen(out.getvalue())
        assert " ".join(lines).split() == step.split()
        assert all(len(line) < width for line in lines)
    progress.done()
    assert screen(out.getvalue()) == [""]


def test_a_terminal_without_control_sequences_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress()
    progress("drawing")
    progress.done()
    assert out.getvalue() == "drawing\n"
