"""Changes of an audit to rows of others: deletions, rewritten files.

Rows that an audit adds have their own transactions (writer.py). Here every other change becomes a Delta transaction of
its audit, too. So Delta itself refuses the commit of an audit that stalled in it while another one took over. The next
audit shuts the earlier one out of every table before it reads any of them (lake/claim.py).

    audit 3, which deletes   look at the claim ............ stalled ............ commit 3,1: refused
    audit 4, which took over                  shut out (4,0)  delete (4,1)  append  finish
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from kgroups_spark.lake.lake import Answer, Lake
from kgroups_spark.lake.last_finished import UPKEEP_APP_ID
from kgroups_spark.lake.store import AlreadyWritten, ChangedMeanwhile, TableLog

Transaction = tuple[str, int]

ATTEMPTS = 5

# An audit may change a table many times: the low bits of a transaction version count its changes, and its number is in
# the bits above.
CHANGE_BITS = 20


def first_change_of(audit_id: int) -> int:
    """The transaction version from which on a table accepts only changes of this audit and of later ones."""
    return audit_id << CHANGE_BITS


@dataclass(frozen=True)
class Fence:
    """Commits the changes of one audit. `check_claim` is called before each of them and raises if the claim is lost."""

    lake: Lake
    audit_id: int
    check_claim: Callable[[], None]

    def commit(self, name: str, operation: str, write: Callable[[Transaction], Answer]) -> Answer:
        """The answer of `write`, which commits the given transaction. It is called again if another process (OPTIMIZE,
        say) commits to the table at the same time.

        Raises the error of `check_claim` if the claim is lost, even if only the refused commit shows it.
        """
        with named_if_lost(self.check_claim):
            attempt = partial(self._attempt, self.lake.table(name), write)
            return self.lake.commit(name, operation, partial(until_nobody_interferes, attempt))

    def _attempt(self, log: TableLog, write: Callable[[Transaction], Answer]) -> Answer:
        newest = log.last_transaction(UPKEEP_APP_ID) or 0
        if newest >= first_change_of(self.audit_id + 1):
            raise AlreadyWritten(f"audit {newest >> CHANGE_BITS} has changed {log.path}")
        return write((UPKEEP_APP_ID, max(newest + 1, first_change_of(self.audit_id))))


@contextmanager
def named_if_lost(check_claim: Callable[[], None]) -> Iterator[None]:
    """Around a commit: calls `check_claim` before it, and again if it fails. So an audit that was taken over gets that
    error, whatever refused the commit."""
    check_claim()
    try:
        yield
    except Exception:
        check_claim()
        raise


def until_nobody_interferes(write: Callable[[], Answer]) -> Answer:
    """The answer of `write`, which is called again if another process (OPTIMIZE, say) commits to the table
    meanwhile."""
    for _ in range(ATTEMPTS - 1):
        try:
            return write()
        except ChangedMeanwhile:
            continue
    return write()
