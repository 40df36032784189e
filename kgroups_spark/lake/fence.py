"""Changes of an audit to rows of others: deletions, rewritten files, columns, properties.

Rows that an audit adds have their own transactions (writer.py). Here every other change becomes a Delta transaction of
its audit, too. So Delta itself refuses the commit of an audit that stalled in it while another one took over. The next
audit shuts the earlier one out of every table before it reads any of them (unfinished.py).

    audit 3, which deletes   look at the claim ............ stalled ............ commit 3,1: refused
    audit 4, which took over                  shut out (4,0)  delete (4,1)  append  finish
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from kgroups_spark.lake.kernel import repetition_refused
from kgroups_spark.lake.lake import Answer, Lake
from kgroups_spark.lake.last_finished import UPKEEP_APP_ID
from kgroups_spark.lake.store import AlreadyWritten, ChangedMeanwhile, TableLog

Transaction = tuple[str, int]

ATTEMPTS = 5

# An audit may change a table many times: the low bits of a transaction version count its changes, and its number is in
# the bits above.
CHANGE_BITS = 20

# Delta's settings for the transaction of a DELETE or an UPDATE.
DML_APP_ID = "spark.databricks.delta.write.txnAppId"
DML_VERSION = "spark.databricks.delta.write.txnVersion"


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

    def sql(self, name: str, operation: str, statement: str) -> None:
        """Runs a DELETE or UPDATE; `{table}` in it is replaced by the table's name."""
        text = statement.format(table=self.lake.identifier(name))
        self.commit(name, operation, lambda transaction: self._run(name, text, transaction))

    def _attempt(self, log: TableLog, write: Callable[[Transaction], Answer]) -> Answer:
        newest = log.last_transaction(UPKEEP_APP_ID) or 0
        if newest >= first_change_of(self.audit_id + 1):
            raise AlreadyWritten(f"audit {newest >> CHANGE_BITS} has changed {log.path}")
        return write((UPKEEP_APP_ID, max(newest + 1, first_change_of(self.audit_id))))

    def _run(self, name: str, statement: str, transaction: Transaction) -> None:
        app_id, version = transaction
        with _settings(self.lake.spark, {DML_APP_ID: app_id, DML_VERSION: str(version)}), repetition_refused():
            (changed,) = self.lake.spark.sql(statement).collect()
        newest = self.lake.table(name).last_transaction(app_id) or 0
        # Delta silently skips a repeated transaction. It does not commit one that changes no row, either.
        if newest > version or (newest < version and changed[0]):
            raise AlreadyWritten(f"its newest is {newest}")


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


@contextmanager
def _settings(spark: Any, values: dict[str, str]) -> Iterator[None]:
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in values:
            spark.conf.unset(key)
