"""print a shell completion script

Prints a script for the shell. Once it has been read, TAB completes commands, options, values and file names.

examples:
  kgroups completion zsh > ~/.zfunc/_kgroups              a folder of $fpath, before compinit
  kgroups completion fish > ~/.config/fish/completions/kgroups.fish
  echo 'eval "$(kgroups completion bash)"' >> ~/.bashrc   every bash from then on"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from kgroups_spark.cli.form import UNUSED_LAKE, Option, name_value
from kgroups_spark.errors import UsageError

# shtab generates the scripts for five shells from argparse's own parsers. They are static, so a TAB costs nothing
# (argcomplete would start kgroups at each TAB).
SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")

FOLDERS = ("--lake", "--segments")
FILES = ("--file", "--command-config", "--output")

OPTIONS = (
    Option("shell SHELL", ", ".join(SHELLS), name_value(SHELLS), more={"nargs": "?"}),
    UNUSED_LAKE,
)


def run(arguments: argparse.Namespace) -> int:
    """Prints the script. Returns the exit code."""
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
        elif known is not None:
            action.choices = list(known)
    return shtab.complete(parser, shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _actions(subparser)
