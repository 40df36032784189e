"""`kgroups completion`: the words that a real bash offers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from kgroups_spark.cli.completion import SHELLS
from kgroups_spark.cli.main import NAMES, main

# Acts as bash does at a TAB: puts words and line into variables, then calls the function that `complete` names.
PRESS_TAB = """
eval "$(cat completion.bash)"
function=$(complete -p kgroups | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_LINE="$*"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$function kgroups "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script() -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["completion", "bash"]) == 0
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path, script: str) -> Path:
    """The folder in which bash runs, with a kgroups on its PATH, the script, and files."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kgroups").write_text(f'#!/bin/sh\nexec {sys.executable} -m kgroups_spark "$@"\n')
    (tmp_path / "bin" / "kgroups").chmod(0o755)
    (tmp_path / "completion.bash").write_text(script)
    (tmp_path / "queries.sql").touch()
    return tmp_path


def offered(folder: Path, *words: str) -> list[str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path}
    done = subprocess.run(
        ["bash", "-c", PRESS_TAB, "bash", "kgroups", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gro"], ["groups"]),
        (["expiring", "--ret"], ["--retention"]),
        (["groups", "--format", ""], ["csv", "json", "table"]),
        (["groups", "--engine", "d"], ["duckdb"]),
        (["groups", "--lake", "b"], ["bin"]),
        (["sql", "--file", "q"], ["queries.sql"]),
        (["completion", "b"], ["bash"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_bash_completes(folder: Path, words: list[str], expected: list[str]) -> None:
    assert offered(folder, *words) == expected


def test_bash_completes_every_command(folder: Path) -> None:
    """The script is the one that `kgroups` prints as a process, too."""
    with (folder / "completion.bash").open("w") as script:
        subprocess.run([folder / "bin" / "kgroups", "completion", "bash"], stdout=script, check=True)
    found = offered(folder, "")
    assert set(NAMES) <= set(found)


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("expiring", "export-offsets", "duckdb"))
