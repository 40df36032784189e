"""Any client that may join a group chooses its name: whatever the name contains, terminals get only printable text."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess

import pyarrow as pa
import pytest

from kgroups_spark.cli.main import main, parse
from kgroups_spark.words import shell_option, shell_word
from tests.chosen import some_of
from tests.cli.story_reader import story
from tests.cli.written_lake import ledger, write_lake

HOSTILE = ["\x1bc", "\rorders-etl", "\u202e", "\x9b2J", "=cmd|' /C calc'!A0", "\nkgroups: all is well", "\x1b]0;x\x07"]


def hostile(name):
    """One of the hostile names, with the group's own name after it."""
    return None if name is None else HOSTILE[sum(name.encode()) % len(HOSTILE)] + name


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """The shipped segments' groups under hostile names; a note of the ledger names one."""
    tables = {}
    for name, table in story().tables.items():
        for column in ("group_id", "topic"):
            if column in table.column_names and name != "topics":
                at = table.column_names.index(column)
                names = [hostile(value) for value in table.column(at).to_pylist()]
                table = table.set_column(at, table.schema.field(at), pa.array(names, table.schema.field(at).type))
        tables[name] = table
    row = story().last_audit
    facts = {
        "notes": [f"group {HOSTILE[0]}orders differs"],
        "as_of": row["as_of"],
        "partitions": [],
        "rows_added": {"findings": 2},
    }
    return write_lake(tmp_path_factory.mktemp("hostile"), tables | {"audits": ledger(facts)})


def has_no_controls(text):
    return text.replace("\n", "").isprintable()


COMMANDS = (
    "groups",
    "describe --all-groups",
    "describe --all-groups --members --verbose",
    "describe --all-groups --state",
    "history --all-groups",
    "history --all-groups --commits",
    "expiring",
    "expiring --offsets",
    "findings",
    "audits",
    "sql 'SELECT group_id, topic FROM committed_offsets'",
)


@pytest.mark.parametrize("command_and_form", some_of(4, *itertools.product(COMMANDS, ("table", "json"))), ids=" ".join)
def test_no_command_prints_control_characters(command_and_form, lake, capsys):
    command, form = command_and_form
    code = main([*shlex.split(command), "--lake", lake, "--format", form])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert has_no_controls(out)
    assert has_no_controls(err)
    assert not [line for line in err.splitlines() if line.startswith("kgroups: ")]
    if form == "json":
        assert all(json.loads(line) is not None for line in out.splitlines())


def test_suggested_names_are_escaped(lake, capsys):
    assert main(["findings", "--group", "payments-ledgerx", "--lake", lake]) == 1
    out, err = capsys.readouterr()
    assert "; did you mean " in err
    assert (out, err.count("\n"), has_no_controls(err)) == ("", 1, True)


@pytest.mark.parametrize("name", ["orders", "-x", "--help", "it's", "a\nb", "\x1bc", "名", "\u202e-"])
def test_a_suggested_command_names_the_group_that_it_means(name):
    """Messages show control characters spelled out, and a name that begins with a dash is no option."""
    option = shell_option("--group", name)
    assert option.isprintable()
    assert _read_by_bash(shell_word(name)) == [name]
    assert parse(["describe", *_read_by_bash(option)]).group == [name]


def _read_by_bash(words):
    script = f"printf '%s\\0' {words}"
    said = subprocess.run(["bash", "-c", script], env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True).stdout
    return said.decode().split("\0")[:-1]
