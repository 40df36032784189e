"""Golden files of screens: a command, then what it prints up to the next one or a comment. "2> " is stderr, the last
line an exit code but 0; "# lake NAME" names the lake of the commands below. `pytest --regen` writes a file again, and a
person reads the difference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

_PART = re.compile(r"^# lake (.*)\n|^\$ kgroups (.*)\n((?:(?![$#] ).*\n)*)", re.MULTILINE)


class Screen(NamedTuple):
    file: Path
    lake: str
    command: str
    printed: str

    def check(self, now: str, config: pytest.Config) -> None:
        if not config.getoption("regen"):
            assert now == self.printed
            return
        head, of_lake, rest = self.file.read_text().rpartition(f"# lake {self.lake}\n" if self.lake else "\0")
        command = f"$ kgroups {self.command}\n"
        self.file.write_text(head + of_lake + rest.replace(command + self.printed, command + now, 1))


def screens(name: str) -> list[Screen]:
    file, lake, found = Path(__file__).parent / f"{name}.txt", "", []
    for of_lake, command, printed in _PART.findall(file.read_text()):
        lake = of_lake or lake
        if not of_lake:
            found.append(Screen(file, lake, command, printed))
    return found


def screen(code: int, out: str, err: str) -> str:
    lines = [*out.splitlines(), *(f"2> {line}" for line in err.splitlines())]
    return "".join(f"{line}\n" for line in [*lines, *([f"[{code}]"] if code else [])])
