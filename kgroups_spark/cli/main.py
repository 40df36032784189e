"""`kgroups`: reads the command line, runs one command, turns a failure into one message and an exit code.

Exit codes: 0 done; 1 failed; 2 bad usage; 3 an audit with --strict that quarantined something or did not read
everything; 4 expiring, pending, findings or compare with --fail-if-any that found some; 130 interrupted; 143
terminated.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from kgroups_spark.cli.form import LAKE, OptionParser, add_options, help_of
from kgroups_spark.cli.output import buffered_stdout, drop, say, say_lines, spoken_logs, wide_tables
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.package_data import __version__
from kgroups_spark.spark.interruption import SIGNALS, how_it_ended, interruptible, is_interruption
from kgroups_spark.words import did_you_mean

# In the order of the help.
_NAMES = """
    demo audit audits expiring groups describe history lag pending dead-letters findings migration cleanup
    export-offsets compare report metrics sql maintain rebuild dump completion
"""
NAMES = tuple(_NAMES.split())

DONE, FAILED = 0, 1

_DESCRIPTION = """\
History, current state and upcoming expiry of Kafka consumer groups, from __consumer_offsets, in Delta tables."""

_EPILOG = """\
examples:
  kgroups demo                                            audit shipped segments into ./lake and show what is in it
  kgroups audit --lake ./lake --segments /var/lib/kafka   a broker's log directory, or a copy of it
  kgroups expiring --lake ./lake --within 48h             what expires within two days, and why
  kgroups pending --lake ./lake --hanging                 transactions that hold offsets for too long
  kgroups dump /var/lib/kafka/__consumer_offsets-7        every record as JSON lines, without Spark

Shell completion: eval "$(kgroups completion bash)" (zsh, fish, tcsh, powershell: kgroups completion --help)

A time is ISO 8601, in UTC unless it names a zone (2026-11-16T06:30, '2026-11-16 06:30Z'), or epoch milliseconds.
Relative times are from the last audit's as_of: 2d and -2d are two days before it, +2d after (audit, rebuild: from now).
A duration has a unit: 500ms, 30s, 15m, 48h, 7d.
Options that need not be typed: in ./kgroups.toml, lake = "./lake" and a table for each command, as [audit] with
bootstrap-server = "broker1:9092" and retention = "14d"; or the same in pyproject.toml, [tool.kgroups].
Rows go to stdout, everything else to stderr. Exit: 0 done, 1 failed, 2 bad usage, 3 --strict, 4 --fail-if-any."""


def entry_point() -> None:
    """Runs the process of one command line to its end."""
    with interruptible():
        code = main(sys.argv[1:])
        SIGNALS.process_ends = True
        is_interrupted = SIGNALS.received is not None
        if is_interrupted and "kgroups_spark.spark.session" in sys.modules:
            sys.modules["kgroups_spark.spark.session"].stop_jvms()
        if is_interrupted or "pyspark" not in sys.modules:
            # This does not wait for threads that an interruption has left running. One run of about a hundred that read
            # a lake ended with SIGABRT after its last line; none of the next 67 did. The likely cause is pyarrow's
            # threads, which read ahead and call Python while the interpreter shuts down.
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError):
                    stream.flush()
            os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str], script: str | None = None, pipeline: Callable[..., Any] | None = None) -> int:
    """Runs one command line and returns its exit code. Never raises for a user's mistake. Errors begin with
    `kgroups: `. `script`: the name of the job that is this command; `pipeline`: its audit by Spark."""
    with interruptible(), buffered_stdout(), spoken_logs():
        try:
            return _done(argv, script, pipeline)
        except BrokenPipeError:
            drop(sys.stdout)
            return DONE  # the reader closed the pipe, as in `kgroups dump ... | head`
        except BaseException as error:
            return _ended_by(error)


def _done(argv: Sequence[str], script: str | None, pipeline: Callable[..., Any] | None) -> int:
    try:
        arguments = parse(argv, script)
        arguments.pipeline = pipeline
        with wide_tables(getattr(arguments, "wide", False)):
            code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as asked:  # --help and --version print and exit
        return int(asked.code or 0)


def _ended_by(error: BaseException) -> int:
    """Prints the reason and returns the exit code. A failure after a signal counts as due to the signal."""
    if is_interruption(error):
        said, code = how_it_ended()
        say(f"kgroups: {said}")
        return code
    if isinstance(error, KgroupsError):
        first, *others = error.lines or ("failed",)
        say_lines([f"kgroups: {first}", *others])
        return error.exit_code
    if isinstance(error, OSError):
        if _is_stdout_full(error):
            drop(sys.stdout)
        say(f"kgroups: {_os_error_text(error)}")
        return FAILED
    say_lines("".join(traceback.format_exception(error)).rstrip().split("\n"))
    say(f"kgroups: {type(error).__name__}: internal error; the lines above show where it happened")
    return FAILED


def parse(argv: Sequence[str], script: str | None = None) -> argparse.Namespace:
    """The options of one command, with `run` and `command` in it. Raises UsageError."""
    if not argv:
        command_line().print_help(sys.stderr)
        say("")
        raise UsageError("no command given; try kgroups demo")
    if argv[0] == "help":
        _require_known("kgroups", argv[2:], ())
        argv = [*argv[1:], "--help"]
    if argv[0] == "version":
        argv = ["--version", *argv[1:]]
    # After the name of a command, no other one's options matter.
    parser = command_line(script, argv[:1] if argv[0] in NAMES else NAMES)
    argv = configured(argv)
    if argv[0].startswith("-"):
        # argparse would take the value of an unknown option before the command for the command.
        _require_known("kgroups", argv[:1], parser.option_strings())
    arguments, unknown = parser.parse_known_args(argv)
    _require_known(script or f"kgroups {arguments.command}", unknown, arguments.known)
    return arguments


# A file of options that need not be typed: `lake`, and a table for each command with options of it.
CONFIGURATION = "kgroups.toml"
# The options of the file that one of the command line replaces, besides itself.
INSTEAD_OF = {
    "--segments": {"--records", "--bootstrap-server", "--command-config", "--max-bytes-per-second"},
    "--records": {"--segments", "--bootstrap-server", "--command-config", "--max-bytes-per-second"},
    "--bootstrap-server": {"--segments", "--records"},
}


def configured(argv: Sequence[str]) -> list[str]:
    """The words of a command line with the options of ./kgroups.toml, or of [tool.kgroups] in ./pyproject.toml, that it
    does not have. Raises UsageError for a file that has anything else than the lake and tables of commands."""
    at = 2 if argv[0] == "--lake" else int(argv[0].startswith("--lake="))
    command = argv[at] if at < len(argv) else None
    if command not in NAMES:
        return [*argv]
    file, options = _configuration()
    for name, value in options.items():
        if name not in ("lake", *NAMES) or isinstance(value, dict) == (name == "lake"):
            known = did_you_mean(name, ("lake", *NAMES))
            raise UsageError(f"{file}: {name} is neither the lake nor the table of a command{known}")
    given = {word.partition("=")[0] for word in argv}
    given |= {other for name in given for other in INSTEAD_OF.get(name, ())}
    own = {name: value for name, value in options.get(command, {}).items() if f"--{name}" not in given}
    words = list[str]()
    for name, value in own.items():
        values = value if isinstance(value, list) else [value]
        words += [f"--{name}"] * value if isinstance(value, bool) else [f"--{name}={each}" for each in values]
    # The demo is for a lake of its own.
    has_lake = "--lake" in given or "KGROUPS_LAKE" in os.environ or command == "demo"
    lake = [] if has_lake else [f"--lake={options[name]}" for name in ("lake",) if name in options]
    return [*lake, *argv[: at + 1], *words, *argv[at + 1 :]]


def _configuration() -> tuple[str, dict[str, Any]]:
    for file, *keys in ((CONFIGURATION,), ("pyproject.toml", "tool", "kgroups")):
        if not Path(file).exists():
            continue
        import tomllib  # slow to import, and few folders have such a file

        try:
            found = tomllib.loads(Path(file).read_text("utf-8"))
        except ValueError as error:
            if file == CONFIGURATION:
                raise UsageError(f"{file} is no TOML: {error}") from error
            continue
        for key in keys:
            found = found.get(key, {})
        if found:
            return file, found
    return CONFIGURATION, {}


def command_named(name: str) -> ModuleType:
    """The command's module. It is imported only now: all of them take twice as long as one."""
    return import_module(f"kgroups_spark.cli.{name.replace('-', '_')}")


def command_line(script: str | None = None, names: Sequence[str] = NAMES) -> OptionParser:
    """The parser of these commands. `script`: what the user typed instead of `kgroups` and a command."""
    parser = OptionParser(prog="kgroups", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("-V", "--version", action="version", version=f"kgroups {__version__}")
    LAKE.add(parser)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=OptionParser)
    subparsers.type = str  # all words of the command, which its own parser reads
    for name, command in zip(names, map(command_named, names), strict=True):
        subparser = subparsers.add_parser(name, prog=script or f"kgroups {name}", **help_of(command))
        add_options(subparser, command.OPTIONS)
        subparser.set_defaults(run=command.run, known=subparser.option_strings(), all_commands=command_line)
    return parser


def _require_known(program: str, words: Sequence[str], known: Sequence[str]) -> None:
    """Raises UsageError for the first unknown option among the words, else for the first word."""
    names = [word.split("=")[0] for word in words]
    unknown = [name for name in names if name not in known]
    for name in sorted(unknown, key=lambda name: not name.startswith("-")):
        kind = "option" if name.startswith("-") else "argument"
        raise UsageError(f"unknown {kind} {name}{did_you_mean(name, known)} (see {program} --help)")


def _os_error_text(error: OSError) -> str:
    """`/var/lib/kafka/x: Permission denied`."""
    name = "stdout" if _is_stdout_full(error) else error.filename
    return str(error) if name is None else f"{name}: {error.strerror}"


def _is_stdout_full(error: OSError) -> bool:
    """Whether stdout's disk or quota is full. Errors of other files written here have a file name."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return is_full and error.filename is None and error.strerror == os.strerror(error.errno or 0)


if __name__ == "__main__":
    entry_point()
