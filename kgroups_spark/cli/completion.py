"""print a shell completion script

Prints a script for the shell. Once it has been read, TAB completes commands, options, values and file names, and after
--group the names of the groups of the lake that --lake or $KGROUPS_LAKE names.

examples:
  kgroups completion zsh > ~/.zfunc/_kgroups              a folder of $fpath, before compinit
  kgroups completion fish > ~/.config/fish/completions/kgroups.fish
  echo 'eval "$(kgroups completion bash)"' >> ~/.bashrc   every bash from then on"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator
from itertools import pairwise

from kgroups_spark.cli.form import UNUSED_LAKE, Option
from kgroups_spark.cli.options import lake_location, name_value
from kgroups_spark.errors import KgroupsError, UsageError

# shtab generates the scripts for five shells from argparse's own parsers. They are static, so a TAB costs nothing,
# except for names of groups, for which they call kgroups. (argcomplete would start kgroups at each TAB.)
SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")

# Shells expand the words that they complete: a group named $(...) would be run.
SAFE_NAME = re.compile(r"[A-Za-z0-9._-]+")
MANY = 2000

FOLDERS = ("--lake", "--segments")
FILES = ("--file", "--command-config", "--output")
GROUP_NAMES = {
    "bash": "_kgroups_group_names",
    "zsh": "($(kgroups completion --group-names 2>/dev/null))",
    "fish": "(kgroups completion --group-names 2>/dev/null)",
    "tcsh": "`kgroups completion --group-names`",
    "preamble": {
        "bash": """
_kgroups_group_names() {
  compgen -W "$(COMP_LINE="$COMP_LINE" kgroups completion --group-names 2>/dev/null)" -- "$1"
}"""
    },
}


OPTIONS = (
    Option("shell SHELL", ", ".join(SHELLS), name_value(SHELLS), more={"nargs": "?"}),
    Option("--group-names", "names of groups, one a line, for the scripts"),
    UNUSED_LAKE,
)


def run(arguments: argparse.Namespace) -> int:
    """Prints the script, or the names of groups. Returns the exit code."""
    if arguments.group_names:
        for name in group_names(arguments):
            sys.stdout.write(f"{name}\n")
        return 0
    if arguments.shell is None:
        raise UsageError(f"name a shell: {', '.join(SHELLS)}")
    sys.stdout.write(script(arguments.all_commands(), arguments.shell) + "\n")
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    import shtab  # here, because importing it would slow down every start

    for action in _actions(parser):
        known = getattr(action.type, "known", None)
        if action.option_strings and action.option_strings[0] in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.dest == "paths" or (action.option_strings and action.option_strings[0] in FILES):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif "--group" in action.option_strings:
            action.complete = GROUP_NAMES  # type: ignore[attr-defined]
        elif known is not None:
            action.choices = list(known)
    return shtab.complete(parser, shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _actions(subparser)


def group_names(arguments: argparse.Namespace) -> list[str]:
    """Names of the lake's groups that need no quoting in a shell; none if DuckDB cannot read the lake."""
    from kgroups_spark.sql.by_duckdb import duckdb_reader

    try:
        arguments.lake = _typed_lake(os.environ.get("COMP_LINE", "")) or arguments.lake
        reader = duckdb_reader(lake_location(arguments), must=True)
        found = sorted({row["group_id"] for row in reader.sql("SELECT group_id FROM groups")}) if reader else []
    except KgroupsError:
        return []
    return [name for name in found if SAFE_NAME.fullmatch(name)][:MANY]


def _typed_lake(line: str) -> str | None:
    """The value of --lake in the line that is being typed; None: it has none."""
    try:
        words = shlex.split(line)
    except ValueError:  # an unclosed quote
        words = line.split()
    for word, following in pairwise([*words, ""]):
        if word == "--lake" and following:
            return os.path.expanduser(following)  # noqa: PTH111  a URI is no Path
        if word.startswith("--lake="):
            return os.path.expanduser(word.partition("=")[2])  # noqa: PTH111
    return None
