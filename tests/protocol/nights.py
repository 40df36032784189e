"""The changes of audits, rebuilds and maintenance to a lake: the package's own claims, clearing up and commits, with
rows that have only a log offset."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.claim import Claim, clear_up
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import REBUILD_APP_ID
from kgroups_spark.lake.ledger import AuditRow, Ledger, PartitionProgress
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.store import TableFile
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.definitions import NIGHT
from tests.lake.table_rows import rows_of

# The tables that these write; a lake has no others here.
WRITTEN = ("offset_commits", "quarantine", "checkpoints", "groups", "audits")
# Each such place of the log is in quarantine.
ODD = 7
# A run that claims the lake with a release may rewrite its current tables.
RELEASE = "4.3"


def audit(lake: Lake, end: int) -> int:
    """Reads the log up to `end`; returns the number of the audit, or 0 if another one had read more."""
    with Claim.take(lake, take_over=True, release_version=RELEASE) as claim:
        clear_up(claim)
        start = read_by(claim.before)
        if end <= start:
            return 0
        writer = _writer(lake, claim)
        for name, places in _places(range(start, end)).items():
            writer.append_table(name, _rows(writer, name, [{"log_offset": place} for place in places]))
        _replace_state(writer, claim, end)
        claim.finish(partitions=(PartitionProgress(0, start, end),))
        return claim.audit_id


def rebuild(lake: Lake) -> int:
    """Decodes quarantine again, and marks its rows as resolved."""
    with Claim.take(lake, take_over=True, release_version=RELEASE) as claim:
        clear_up(claim)
        assert claim.before is not None
        writer = _writer(lake, claim, REBUILD_APP_ID)
        rows = LakeAsOfAudit(lake, claim.before.audit_id).rows("quarantine").to_pylist()
        rows = [row | {"resolved_by": row["resolved_by"] or claim.audit_id} for row in rows]
        writer.replace_parts("quarantine", _parts(writer, "quarantine", rows))
        _replace_state(writer, claim, read_by(claim.before))
        claim.finish(partitions=claim.before.partitions)
        return claim.audit_id


def maintain(lake: Lake) -> int:
    """Compacts files; returns 0 after an audit or a rebuild that did not finish."""
    with Claim.take(lake, take_over=True) as claim:
        if any(row.release_version for row in claim.unfinished_rows):
            return 0
        clear_up(claim)
        assert claim.before is not None
        writer = _writer(lake, claim)
        for name in ("offset_commits", "quarantine"):
            log = lake.table(name)
            files = log.files()
            paths = {file.path for file in files}
            parts = _parts(writer, name, lake.rows(name, files=files).to_pylist())
            replace = partial(log.commit, parts, by="", remove=partial(_is_one_of, paths), removes=len(paths))
            writer.fence.commit(name, "optimize", partial(_in_transaction, replace))
        claim.finish(partitions=claim.before.partitions)
        return claim.audit_id


def _is_one_of(paths: set[str], file: TableFile) -> bool:
    return file.path in paths


def _in_transaction(write: Callable[..., Any], transaction: tuple[str, int]) -> Any:
    return write(transaction=transaction)


def read_by(row: AuditRow | None) -> int:
    """The offset up to which the log has been read."""
    return row.partitions[0].end_offset if row is not None and row.partitions else 0


def assert_whole(lake: Lake) -> int:
    """Checks that the tables as of the last finished audit have each log offset that it and earlier audits read, once,
    and no others; returns the offset up to which the log has been read."""
    last = Ledger(lake).last_finished()
    end, number = read_by(last), last.audit_id if last else 0
    tables = {name: LakeAsOfAudit(lake, number).rows(name).to_pylist() for name in WRITTEN}
    for name, places in _places(range(end)).items():
        assert sorted(row["log_offset"] for row in tables[name]) == places, name
    assert [row["log_offset"] for row in tables["groups"]] == ([end] if last else [])
    assert len({row["audit_id"] for row in tables["checkpoints"]}) <= 2
    finished = {row["audit_id"] for row in tables["audits"] if row["status"] == "finished"}
    for name in WRITTEN[:-1]:
        assert {row["audit_id"] for row in tables[name]} <= finished, name
    assert {row["resolved_by"] for row in tables["quarantine"]} <= {None, *finished}
    keys = [(row["audit_id"], row["status"]) for row in tables["audits"]]
    assert len(keys) == len(set(keys))
    return end


def _places(places: range) -> dict[str, list[int]]:
    odd = [place for place in places if place % ODD == 0]
    return {"offset_commits": [place for place in places if place % ODD], "quarantine": odd}


def _replace_state(writer: LakeWriter, claim: Claim, end: int) -> None:
    plain = LakeWriter(writer.lake, writer.audit_id, writer.check_claim)
    plain.replace_parts("groups", _parts(plain, "groups", [{"log_offset": end}]))
    kept = claim.before.audit_id if claim.before else None
    writer.replace_parts("checkpoints", _parts(writer, "checkpoints", [{"reason": NIGHT}]), kept)


def _writer(lake: Lake, claim: Claim, app_id: str | None = None) -> LakeWriter:
    writer = LakeWriter(lake, claim.audit_id, claim.check)
    return writer if app_id is None else LakeWriter(lake, claim.audit_id, claim.check, app_id)


def _rows(writer: LakeWriter, name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return rows_of(name, *({"audit_id": writer.audit_id, **row} for row in rows))


def _parts(writer: LakeWriter, name: str, rows: list[dict[str, Any]]) -> list[Part]:
    return writer.lake.write(name, [_rows(writer, name, rows)], writer.audit_id)


# Threads that run one at a time, each until its next step. A function chooses the next thread, and so the
# interleaving.


# Chooses the next thread: takes the names of the threads that have not ended, and returns one of them.
Choose = Callable[[list[str]], str]


class Turns:
    """Runs functions as threads with these names; a thread waits for its next turn in `step`."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._turn: dict[str, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self.steps: dict[str, int] = {}
        self.failed: dict[str, BaseException] = {}
        self.answers: dict[str, Any] = {}

    def step(self) -> None:
        """Waits for the next turn; does nothing in any other thread."""
        name = threading.current_thread().name
        if name in self._turn:
            self.steps[name] += 1
            self._back.release()
            self._turn[name].acquire()

    def run(self, **functions: Callable[[], Any]) -> Turns:
        """Runs the functions until all have ended; keeps the results and exceptions by name."""
        alive = list(functions)
        for name, function in functions.items():
            self._turn[name], self.steps[name] = threading.Semaphore(0), 0
            threading.Thread(target=self._whole, args=(name, function), name=name, daemon=True).start()
        while alive:
            name = self._choose(alive)
            self._turn[name].release()
            self._back.acquire()
            if name in self.answers or name in self.failed:
                alive.remove(name)
        return self

    def _whole(self, name: str, function: Callable[[], Any]) -> None:
        self._turn[name].acquire()
        try:
            self.answers[name] = function()
        except Exception as error:
            self.failed[name] = error
        finally:
            self._back.release()


def by_stretches(*stretches: tuple[str, int]) -> Choose:
    """The given number of steps of each named thread, in this order; then each runs to its end."""
    plan: list[list[Any]] = [[name, steps] for name, steps in stretches]

    def choose(alive: list[str]) -> str:
        while plan and (plan[0][0] not in alive or plan[0][1] == 0):
            plan.pop(0)
        if not plan:
            return alive[-1]
        plan[0][1] -= 1
        return plan[0][0]

    return choose


TO_ITS_END = 1 << 20
