"""Saved states whose files others have rewritten: an audit goes on from the newest one, or rebuilds it and says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.lake.store import TableFile
from kgroups_spark.lake.writer import is_of_night, newest_state, rows_of_state
from kgroups_spark.tables.schemas import CHECKPOINTS
from tests.chosen import one_of
from tests.nights.cleaned_nights import Nights
from tests.nights.forgetful_nights import REPORTED, comparable, three_nights
from tests.nights.nights_here import Audited, how_of
from tests.protocol.fake_delta import in_memory


@cache
def two_nights() -> Audited:
    """The second reads the log again."""
    first, second, _ = three_nights()
    nights = Nights(how_of())
    nights.audit(first)
    nights.audit(second, delete_retention_ms=1)
    return nights.audited


def nights_and(change: Callable[[Audited], None] | None = None) -> Audited:
    """A third night after these two; the lake is changed before it."""
    nights = Nights(how_of(), audited=Audited(two_nights()))
    if change is not None:
        change(nights.audited)
    nights.audit(three_nights()[-1])
    return nights.audited


# By the offsets partition whose state is gone; None: those of all.
WHY_REBUILT = {
    None: r"audit 2 had read partition 0 up to offset \d+, and its state is that before \d+$",
    1: r"audit 2 had read partition 1 up to offset \d+, and its state is gone$",
}


@pytest.fixture(scope="module")
def undisturbed() -> Audited:
    return nights_and()


def joined(audited: Audited, is_one: Callable[[TableFile], bool]) -> None:
    """As OPTIMIZE and auto compaction do: some files of checkpoints become one."""
    with in_memory():
        lake = Lake.open(audited.session, audited.lake)
        log = lake.table(CHECKPOINTS)
        files = list(filter(is_one, log.files()))
        assert len({file.bound("minValues", "audit_id") for file in files}) > 1
        part = PartWriter(CHECKPOINTS, lake.uri, 99).write(lake.rows(CHECKPOINTS, files=files))
        paths = {file.path for file in files}
        log.commit([part], by="OPTIMIZE", transaction=None, remove=lambda file: file.path in paths, changes_rows=False)
        assert newest_state(lake, CHECKPOINTS, 2) == 2
        assert newest_state(lake, CHECKPOINTS, 1) == 1
        assert newest_state(lake, CHECKPOINTS, 0) is None
    audited._read = {}


@pytest.mark.parametrize("files", one_of("states of two nights", "corrections, too"))
def test_a_night_goes_on_from_the_newest_state_in_compacted_files(undisturbed: Audited, files: str) -> None:
    is_one: Callable[[TableFile], bool] = is_of_night if files == "states of two nights" else lambda _: True
    found = nights_and(lambda audited: joined(audited, is_one))
    assert not [note for note in found.newest.notes or () if "rebuilt" in note]
    for name in REPORTED:
        if name != CHECKPOINTS:  # rows of older nights may be in a file that has to stay
            assert comparable(found.rows(name)) == comparable(undisturbed.rows(name)), name
    with in_memory():
        lake = Lake.open(found.session, found.lake)
        newest = [
            lake.rows(CHECKPOINTS, conditions=rows_of_state(CHECKPOINTS, audit_id)).num_rows for audit_id in (2, 3)
        ]
    assert all(newest), "the state before the last one stays, for an audit that is done again"


def taken_away(audited: Audited, offsets_partition: int | None) -> None:
    """The newest state is gone, of one offsets partition or (None) of all."""
    with in_memory():
        lake = Lake.open(audited.session, audited.lake)
        log, conditions = lake.table(CHECKPOINTS), rows_of_state(CHECKPOINTS, 2)
        rows = lake.rows(CHECKPOINTS, conditions=conditions)
        left = rows.filter([number != offsets_partition for number in rows["offsets_partition"].to_pylist()])
        parts = [PartWriter(CHECKPOINTS, lake.uri, 2).write(left)] if offsets_partition is not None else []
        log.commit(
            parts,
            by="a stranger",
            transaction=None,
            remove=lambda file: is_of_night(file) and file.bound("minValues", "audit_id") == 2,
        )
    audited._read = {}


@pytest.mark.parametrize("offsets_partition", one_of(None, 1))
def test_a_missing_newest_state_is_rebuilt_and_no_older_one_is_used(
    undisturbed: Audited, offsets_partition: int | None
) -> None:
    why = WHY_REBUILT[offsets_partition]
    found = nights_and(lambda audited: taken_away(audited, offsets_partition))
    (note,) = (note for note in found.newest.notes or () if "rebuilt" in note)
    assert re.match(f"state rebuilt from history: {why}", note), note
    for name in REPORTED:
        if name not in (CHECKPOINTS, "transaction_markers", "quarantine"):
            assert comparable(found.rows(name)) == comparable(undisturbed.rows(name)), name
