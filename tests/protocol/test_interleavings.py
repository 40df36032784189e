"""Audits that stall and wake, in every order of their looks at the lake and their commits; no Spark, no JVM.

The package's own claims, clearing up and commits run over logs in memory (fake_delta.py). An audit that stalls at any
of its steps, while another one takes over and finishes, changes nothing when it wakes, and stops because its claim is
lost.
"""

from __future__ import annotations

import json
import random
from functools import partial
from unittest import mock

import pytest

from kgroups_spark.lake.claim import Claim, ClaimLost, clear_up
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import ABANDONED
from kgroups_spark.lake.ledger import Ledger, _arrow
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of
from tests.protocol.fake_delta import FakeStore, Version, fake_lake, in_this_process
from tests.protocol.nights import (
    TO_ITS_END,
    WRITTEN,
    Turns,
    assert_whole,
    audit,
    by_stretches,
    maintain,
    rebuild,
)

# The runs that are killed or that stall, by name.
NIGHTS = {"audit": partial(audit, end=30), "rebuild": rebuild, "maintain": maintain}


@pytest.fixture(autouse=True)
def few_tables():
    everything = dict(TABLES)
    for name in set(TABLES) - set(WRITTEN):
        del TABLES[name]
    yield
    # In their order, which pages and commits go by.
    TABLES.clear()
    TABLES.update(everything)


def begun(folder, killed):
    """The logs of a lake with one finished audit and one that was killed at its end."""
    store = FakeStore()
    lake = fake_lake(store, folder)
    audit(lake, 10)
    if killed:
        with mock.patch.object(Claim, "finish", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
            NIGHTS[killed](lake)
    return store.logs


class Trial:
    """A lake of these logs in the folder, and what happens to it."""

    def __init__(self, folder, logs, *, looks_then_writes):
        self.store, self.folder = FakeStore(looks_then_writes=looks_then_writes), folder
        self.store.logs = {path: list(log) for path, log in logs.items()}

    def run(self, choose, **nights):
        """Each as an audit of a host of its own, one step at a time."""
        turns = Turns(choose)
        # Opened before: in Python 3.11 a cached property lets one thread in at a time, which here would wait in it.
        opened = {name: partial(night, self._opened()) for name, night in nights.items()}
        self.store.step = turns.step
        turns.run(**opened)
        self.store.step = lambda: None
        return turns

    def _opened(self):
        lake = fake_lake(self.store, self.folder)
        assert lake.version
        return lake

    def versions(self):
        return {path: len(log) for path, log in self.store.logs.items()}

    def assert_whole(self):
        """Now, and after one more audit."""
        lake = fake_lake(self.store, self.folder)
        before = assert_whole(lake)
        audit(lake, before + 5)
        assert assert_whole(lake) == before + 5


@pytest.fixture
def trials(tmp_path):
    logs = {}

    def trial(*, killed="audit", looks_then_writes=False):
        # No trial changes a file: all that begin alike share theirs.
        folder = tmp_path / f"lake-{killed}"
        if killed not in logs:
            logs[killed] = begun(folder, killed)
        return Trial(folder, logs[killed], looks_then_writes=looks_then_writes)

    with in_this_process():
        yield trial


def steps_of(trial, night):
    turns = trial.run(by_stretches(("alone", 0)), alone=night)
    assert not turns.failed
    trial.assert_whole()
    return turns.steps["alone"]


@pytest.mark.parametrize("name", one_of(*NIGHTS))
def test_a_run_that_wakes_after_another_took_over_and_finished_changes_nothing(trials, chosen, name):
    steps = {killed: steps_of(trials(killed=killed), NIGHTS[name]) for killed in chosen.some(NIGHTS, 1)}
    stalls = [(killed, at) for killed, count in steps.items() for at in range(1, count)]
    for killed, at in chosen.some(stalls, 1):
        trial, left = trials(killed=killed), {}
        turns = trial.run(
            by_stretches(("stalls", at), ("other", TO_ITS_END)),
            stalls=NIGHTS[name],
            other=partial(_takes_over, trial, left),
        )
        where = f"{name} after a killed {killed}, stalled at step {at} of {steps[killed]}"
        assert "other" not in turns.failed, where
        if "stalls" in turns.failed:
            assert isinstance(turns.failed["stalls"], ClaimLost), (where, turns.failed["stalls"])
            assert trial.versions() == left, where
        trial.assert_whole()


def _takes_over(trial, left, lake):
    done = audit(lake, 40)
    left.update(trial.versions())
    return done


@pytest.mark.parametrize("name", one_of(*NIGHTS))
def test_two_runs_that_stall_and_wake_in_turn_leave_a_whole_lake(trials, chosen, name):
    """The one stalls, the other takes over and stalls in its turn, the first one goes on."""
    cases = [(killed, first, second) for killed in NIGHTS for first in range(0, 99, 3) for second in range(0, 99, 3)]
    ends = {}
    for killed, first, second in chosen.some(cases, 1):
        if first > ends.get(killed, first) or second > ends.get((killed, first), second):
            continue  # one that stalls after its end has ended: that was tried
        trial = trials(killed=killed)
        choose = by_stretches(("stalls", first), ("other", second), ("stalls", TO_ITS_END))
        turns = trial.run(choose, stalls=NIGHTS[name], other=partial(audit, end=40))
        assert_one_at_a_time(turns, f"{name} after a killed {killed}, stalled at {first}, the other one at {second}")
        trial.assert_whole()
        if turns.steps["stalls"] < first:
            ends.setdefault(killed, first)
        if turns.steps["other"] < second:
            ends.setdefault((killed, first), second)


def assert_one_at_a_time(turns, where):
    """A run that did not finish failed because another one has the claim."""
    for failed in turns.failed.values():
        assert isinstance(failed, ClaimLost), (where, failed)


@pytest.mark.parametrize("looks_then_writes", [False, True])
def test_three_runs_in_any_order_leave_a_whole_lake(trials, chosen, looks_then_writes):
    for seed in chosen.some(range(400), 1):
        trial = trials(killed=random.Random(seed).choice([*NIGHTS, ""]), looks_then_writes=looks_then_writes)
        turns = trial.run(
            random.Random(seed).choice, one=partial(audit, end=30), two=partial(audit, end=40), three=maintain
        )
        if not looks_then_writes:
            assert_one_at_a_time(turns, f"seed {seed}")
        trial.assert_whole()


def test_an_audit_that_stalls_while_marking_another_as_abandoned_marks_it_once(trials, monkeypatch):
    """It has not been shut out yet: its row counts, and the audit that took over adds none."""
    trial = trials()
    lake, commit, later = fake_lake(trial.store, trial.folder), Lake.commit, list[Claim]()

    def watched(self, table, operation, write):
        if operation == "abandon" and not later:
            with mock.patch("kgroups_spark.lake.last_finished.this_host", lambda: "elsewhere"):
                later.append(Claim.take(lake, take_over=True))
        return commit(self, table, operation, write)

    monkeypatch.setattr(Lake, "commit", watched)
    with Claim.take(lake, take_over=True) as claim, pytest.raises(ClaimLost):
        clear_up(claim)
    with later[0] as claim:
        clear_up(claim)
    abandoned = [row.audit_id for row in Ledger(lake).rows() if row.status == ABANDONED]
    assert abandoned == [2, 3]


@pytest.mark.parametrize(("has_finished", "said"), [(False, ClaimLost), (True, ZeroDivisionError)])
def test_an_audit_that_fails_after_a_take_over_says_so_unless_it_had_finished(trials, has_finished, said):
    trial = trials(killed="")
    lake = fake_lake(trial.store, trial.folder)
    with pytest.raises(said), Claim.take(lake) as claim:
        if has_finished:
            claim.finish()
        with mock.patch("kgroups_spark.lake.last_finished.this_host", lambda: "elsewhere"):
            Claim.take(lake, take_over=True).release()
        raise ZeroDivisionError


def test_an_audit_that_fails_together_with_the_store_raises_its_own_error(trials, monkeypatch):
    lake = fake_lake(FakeStore(), trials(killed="").folder.with_name("other"))
    with pytest.raises(ZeroDivisionError), Claim.take(lake):
        monkeypatch.setattr(Ledger, "newest", mock.Mock(side_effect=ConnectionRefusedError))
        raise ZeroDivisionError


def test_an_audit_whose_row_was_overwritten_has_lost_its_claim(trials):
    """On a store that looks and then writes, another audit's claim of the same number replaces this one's."""
    trial = trials(killed="")
    lake = fake_lake(trial.store, trial.folder)
    with Claim.take(lake) as claim:
        claim.check()
        other = claim.row._replace(owner="elsewhere 4711 123 its-uuid")
        log = trial.store.logs[f"file:{trial.folder}/audits"]
        at = next(n for n, version in enumerate(log) if '"kgroups-ledger", "version": 4' in version.text)
        row = PartWriter("audits", str(trial.folder), 2).write([_arrow([other])])
        assert row is not None
        *others, last = log[at].text.splitlines()
        add = json.loads(last)["add"] | {"path": row.path, "size": row.size, "stats": row.stats_json}
        log[at] = Version.of(at, "\n".join([*others, json.dumps({"add": add})]))
        for forbidden in (claim.check, claim.finish):
            with pytest.raises(ClaimLost, match=r"audit 2 stops: audit 2 \(process 4711 on elsewhere, .*has claimed"):
                forbidden()
