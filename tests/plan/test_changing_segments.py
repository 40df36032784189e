"""Segments that a broker replaces, merges, renames, cuts off and deletes while an audit plans and reads.

The change happens at each moment in turn: before every listing of a folder, at every opening of a file, before and
after every read. Whatever happens, an audit ends in a state that existed, loses nothing and invents no damage.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from kgroups_spark.audit.plan import AnotherLog
from kgroups_spark.replay import ranges
from kgroups_spark.sources import files, segments
from tests.chosen import Chosen
from tests.nights.changing_segments import PLANNED, Broker, Lake, Steps, commit, state


class Moments:
    """Counts the moments at which an audit touches files, and lets a change go on at some of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: Steps, first: int, *, all_at_once: bool) -> None:
        self.seen, self._steps, self._first, self._all_at_once = 0, steps, first, all_at_once
        self._is_busy = False
        for kind in (files.LocalFile, files.StoredFile):
            self._around(monkeypatch, kind, "__init__")
            self._around(monkeypatch, kind, "readinto")
        self._around(monkeypatch, segments, "list_folder")
        monkeypatch.setattr(segments.time, "sleep", lambda _: None)

    def _around(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def moment(*arguments: Any, **more: Any) -> Any:
            self._pass()
            found = real(*arguments, **more)
            self._pass()
            return found

        monkeypatch.setattr(owner, name, moment)

    def _pass(self) -> None:
        self.seen += 1
        if self.seen < self._first:
            return
        next(self._steps, None)
        if self._all_at_once:
            for _ in self._steps:
                pass

    def finish(self) -> None:
        """Does the rest of the change."""
        for _ in self._steps:
            pass


CHANGES: list[Callable[[Broker], Steps]] = [
    Broker.cleans,
    Broker.merges,
    Broker.cleans_twice,
    Broker.goes_on,
    Broker.copies_files,
    Broker.cuts_off,
    Broker.deletes_records,
]


HOW = ["whole", "in ranges", "in ranges, the last first", "full"]


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_a_change_at_any_moment_loses_nothing_and_invents_no_damage(
    change: Callable[[Broker], Steps], tmp_path: Path, chosen: Chosen
) -> None:
    moments = range(1, 2 + audit_disturbed(change, tmp_path / "undisturbed", "full", 10**6))
    assert len(moments) > 15
    cases = list(itertools.product(moments, HOW, [True, False]))
    for number, (moment, how, at_once) in enumerate(chosen.some(cases, 2)):
        audit_disturbed(change, tmp_path / str(number), how, moment, all_at_once=at_once)


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_a_change_in_an_object_store_loses_nothing_and_invents_no_damage(
    change: Callable[[Broker], Steps], tmp_path: Path, chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store has no open files: each read gets the file that has the name at that time."""
    store = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    monkeypatch.setattr(files, "file_system", lambda location: (store, location))
    monkeypatch.setattr(segments, "is_local", lambda location: False)
    moments = range(1, 2 + audit_disturbed(change, tmp_path / "undisturbed", "full", 10**6))
    for number, (moment, how) in enumerate(chosen.some(itertools.product(moments, HOW), 1)):
        audit_disturbed(change, tmp_path / str(number), how, moment)


def audit_disturbed(
    change: Callable[[Broker], Steps], folder: Path, how: str, moment: int, *, all_at_once: bool = True
) -> int:
    """An audit during which the change begins at that moment, and one after it; how many moments there were."""
    broker = Broker(folder)
    lake = Lake(broker)
    cut_off = change is Broker.cuts_off
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranges, "SMALLEST_CUT_BYTES", 1 if "ranges" in how else 1 << 30)
        moments = Moments(patched, change(broker), moment, all_at_once=all_at_once)
        lake.audit(full=how == "full", backwards="last first" in how)
        moments.finish()
    for is_after in (False, True):
        if is_after and cut_off and lake.next_offset > broker.written - 1:
            with pytest.raises(AnotherLog, match="ends at offset 20, the lake has read it up to 21"):
                lake.audit()
            break
        if is_after:
            lake.audit()
        assert lake.damage == [], (moment, how)
        assert len(set(lake.offsets)) == len(lake.offsets), (moment, how)
        assert lake.state() == state(lake.next_offset), (moment, how)
        assert lake.next_offset >= (broker.written if is_after else PLANNED) - cut_off, (moment, how)
    there = {number for data in broker.contents().values() for number in range(99) if commit(number) in data}
    assert there <= set(lake.offsets), (moment, how)
    return moments.seen
