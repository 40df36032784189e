"""Every store, and another reader of Delta: random commits, and what a table's log says after each of them."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.hadoop import HadoopStore
from kgroups_spark.lake.local import LocalStore
from kgroups_spark.lake.parts import Part, PartWriter
from kgroups_spark.lake.store import AlreadyWritten, ChangedMeanwhile, TableLog
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import seed
from tests.lake.table_rows import rows_of
from tests.protocol.fake_delta import FakeStore, folder_of

pytestmark = pytest.mark.spark

NAME = "topics"
APPS = ("audits", "upkeep")
REFUSALS = (AlreadyWritten, ChangedMeanwhile, ValueError)
MEANWHILE = ("nobody", "another", "the same")


class Interrupted(Sequence[Part]):
    """Parts; at the first look at them, which a commit takes when it has read the log, another writer commits."""

    def __init__(self, parts, meanwhile):
        self._parts, self._meanwhile = parts, meanwhile

    def __iter__(self):
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return iter(self._parts)

    def __len__(self):
        return len(self._parts)

    def __getitem__(self, index):
        return self._parts[index]


@dataclass
class Played:
    """One store's table, and what it answers."""

    log: TableLog
    part: Part

    def named(self, *names):
        return [replace(self.part, path=name) for name in names]

    def play(self, act):
        """The answer, or the name of the refusal."""
        try:
            return repr(getattr(self, act[0])(*act[1:]))
        except REFUSALS as refused:
            return type(refused).__name__

    def create(self):
        self.log.create(TABLES[NAME].schema.json(), "once more", {"is": "ignored"})

    def append(self, name, transaction, meanwhile):
        return self.log.commit(self._interrupted(name, transaction, meanwhile), by="", transaction=transaction)

    def swap(self, name, transaction, meanwhile, goes, removes):
        """Replaces the files whose names hold that letter."""
        parts = self._interrupted(name, transaction, meanwhile)
        return self.log.commit(
            parts, by="", transaction=transaction, remove=partial(_holds, goes), removes=removes, changes_rows=False
        )

    def _interrupted(self, name, transaction, meanwhile):
        parts = self.named(f"{name}.parquet")
        if meanwhile == "nobody" or (meanwhile == "the same" and transaction is None):
            return parts
        other = transaction if meanwhile == "the same" else None
        others = self.named(f"{name}-meanwhile.parquet")
        return Interrupted(parts, lambda: self.log.commit(others, by="", transaction=other))

    def shut_out(self, numbers):
        self.log.shut_out(dict(zip(APPS, numbers, strict=True)), by="")

    def says(self):
        """All that the log answers."""
        log, newest = self.log, self.log.snapshot().version
        return {
            "version": newest,
            "entries": [log.entry(number) is not None for number in range(newest + 2)],
            "properties": log.snapshot().properties,
            "schema": log.snapshot().metadata["schemaString"],
            "transactions": {app: log.snapshot().last_transaction(app) for app in APPS},
            "files": [sorted(map(_seen, log.files(number))) for number in (None, *range(newest + 1))],
            "before": {(app, n): _version_as_of(log, app, n) for app in APPS for n in range(10)},
            "refusal": log.refusal(),
            "features": log.snapshot().features,
        }


def _holds(letter, file):
    return letter in file.path


def _seen(file):
    return file.path, file.size, json.dumps(file.stats, sort_keys=True), file.bound("minValues", "audit_id")


def _version_as_of(log, app, transaction):
    try:
        return log.version_as_of(app, transaction)
    except KgroupsError:
        return "gone"


def acts(chosen, count):
    """Commits by two applications, some with numbers that they have had before, some while another writer commits."""
    for number in range(count):
        transaction = (chosen.choice(APPS), number // 2 + chosen.randrange(-1, 3))
        name = f"{chosen.choice('abc')}{number}"
        match chosen.randrange(8):
            case 0:
                yield ("create",)
            case 1 | 2 | 3:
                yield "shut_out", tuple(number // 2 + chosen.randrange(-1, 3) for _ in APPS)
            case 4 | 5:
                yield "append", name, chosen.choice((transaction, None)), chosen.choice(MEANWHILE)
            case _:
                removes = chosen.choice((None, None, 0, 1, 2))
                yield "swap", name, transaction, chosen.choice(MEANWHILE), chosen.choice("abcq"), removes


def by_another_reader(log):
    """Answers of delta-rs."""
    table = DeltaTable(log.path.removeprefix("file:"))
    found = {"version": table.version(), "properties": table.metadata().configuration, "files": []}
    for number in range(table.version() + 1):
        table.load_as_version(number)
        added = pa.table(table.get_add_actions()).to_pydict()
        found["files"].append(sorted(zip(added["path"], added["size_bytes"], strict=True)))
    return found | {"transactions": {app: table.transaction_version(app) for app in APPS}}


class ByTurns:
    """One table by several stores: each answers the next question, or makes the next commit."""

    def __init__(self, *logs):
        self._logs, self.path = itertools.cycle(logs), logs[0].path

    def __getattr__(self, name):
        return getattr(next(self._logs), name)


@pytest.fixture
def stores(spark, tmp_path):
    """Each store, and the folder of its lake."""
    kinds = {
        "on disk": LocalStore(),
        "in memory": FakeStore(),
        "by Hadoop": HadoopStore(spark),
    }
    return {kind: (store, f"file:{tmp_path}/{kind.replace(' ', '-')}") for kind, store in kinds.items()}


@pytest.fixture
def part(tmp_path):
    (tmp_path / "made" / NAME).mkdir(parents=True)
    made = PartWriter(NAME, str(tmp_path / "made"), 7).write([rows_of(NAME, {"audit_id": 7, "topic": "t"})])
    assert made is not None
    return made


def test_every_store_answers_and_refuses_alike_and_as_another_reader(stores, part, chosen, monkeypatch):
    monkeypatch.setattr(TableLog, "missing", lambda log, parts: [])  # there are none, and Interrupted is looked at once
    for story in chosen.some([*range(40)], 1):
        logs = {kind: store.table(f"{folder}/{NAME}-{story}") for kind, (store, folder) in stores.items()}
        both = [
            store.table(f"{stores['on disk'][1]}/both-{story}") for store, _ in (stores["on disk"], stores["by Hadoop"])
        ]
        tables = {}
        for kind, log in {**logs, "by turns": ByTurns(*both)}.items():
            assert not log.exists()
            log.create(TABLES[NAME].schema.json(), "", {"first": "yes"})
            assert log.exists()
            tables[kind] = Played(log, part)  # type: ignore[arg-type]
        played = list[tuple[Any, ...]]()
        for act in acts(random.Random(f"{seed()} {story}"), 10):
            played.append(act)
            answers = {kind: {"answer": table.play(act), **table.says()} for kind, table in tables.items()}
            for kind, answer in answers.items():
                differs = {question: (said, answers["on disk"][question]) for question, said in answer.items()}
                differs = {question: pair for question, pair in differs.items() if pair[0] != pair[1]}
                assert not differs, f"{kind} after {played}"
        log = logs["on disk"]
        for question, said in by_another_reader(log).items():
            ours = tables["on disk"].says()[question]
            ours = [sorted(each[:2] for each in files) for files in ours[1:]] if question == "files" else ours
            assert said == ours, f"{question} after {played}"


def test_every_store_says_which_parts_are_not_there_as_written(stores, part):
    for store, folder in stores.values():
        log = store.table(f"{folder}/{NAME}")
        log.create(TABLES[NAME].schema.json(), "", {})
        place = folder_of(log.path)
        (place / "whole.parquet").write_bytes(b"1" * part.size)
        (place / "short.parquet").write_bytes(b"1")
        missing = log.missing([replace(part, path=f"{name}.parquet") for name in ("whole", "short", "gone")])
        assert ["short.parquet" in each or "gone.parquet" in each for each in missing] == [True, True]


def test_every_store_lists_and_deletes_the_contents_of_a_folder(stores, part):
    for store, folder in stores.values():
        for name in ("a", "b"):
            store.table(f"{folder}/{name}").create(TABLES[NAME].schema.json(), "", {})
        assert sorted(store.names_in(folder)) == ["a", "b"]
        place = folder_of(folder)
        (place / "a" / "part.parquet").write_bytes(b"1234")
        ((name, (size, _)),) = store.files_in(f"{folder}/a").items()
        assert (name, size) == ("part.parquet", 4)
        store.delete(f"{folder}/a/part.parquet")
        store.delete(f"{folder}/b")
        store.delete(f"{folder}/nothing")
        assert store.files_in(f"{folder}/a") == {}
        assert store.names_in(f"{folder}/nothing") == []
        shutil.rmtree(place)
