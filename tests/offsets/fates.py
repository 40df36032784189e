"""A record's fate at the end of the log, by what the package found of it."""

from __future__ import annotations

import numpy as np

from kgroups_spark.offsets.columns import I64, NEVER
from kgroups_spark.offsets.effects import Fold

FATES = (
    "committed",  # it is the committed offset
    "replaced",  # it was, until another one came
    "removed",  # it was, until a tombstone came
    "superseded",  # its COMMIT came, but a newer record had been committed
    "overwritten",  # a later value of its transaction took its place
    "aborted",
    "dropped",  # a tombstone took it while it was pending
    "pending",
    "unreadable",  # the release does not read such a value: its load fails
    "tombstone",
)
COMMITTED, REPLACED, REMOVED, SUPERSEDED, OVERWRITTEN, ABORTED, DROPPED, PENDING, UNREADABLE, TOMBSTONE = range(10)


def fates(folded: Fold) -> I64:
    """For each record a number of FATES."""
    commits, pending, effects = folded.commits, folded.pending, folded.effects
    fate = np.full(len(commits), REPLACED)
    fate[~commits.is_readable] = UNREADABLE
    fate[commits.is_tombstone] = TOMBSTONE
    fate[pending.row] = np.select(
        [pending.dropped_at < NEVER, ~pending.is_last, pending.end == NEVER, ~pending.is_commit],
        [DROPPED, np.where(pending.is_commit | (pending.end == NEVER), OVERWRITTEN, ABORTED), PENDING, ABORTED],
        default=REPLACED,
    )
    is_value = ~commits.is_tombstone[effects.row]
    fate[effects.row[is_value & ~effects.takes_effect]] = SUPERSEDED
    removals = np.flatnonzero(~is_value & (effects.before >= 0))
    fate[effects.row[effects.before[removals]]] = REMOVED
    fate[effects.row[effects.is_final]] = COMMITTED
    return fate
