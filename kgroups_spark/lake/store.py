"""The store of a lake: the logs of its Delta tables, whoever keeps them.

kernel.py has them by Delta Kernel, at a path or where a catalog says that a table lies. The tests have them in memory
and as Delta's own files, without a JVM; `tests/protocol/test_stores.py` holds all of them to the same answers and
refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from kgroups_spark.lake.parts_writer import Part


class AlreadyWritten(Exception):
    """The table's log already has this transaction: nothing was committed."""


class ChangedMeanwhile(Exception):
    """Somebody else committed to the table between reading its files and replacing them: nothing was committed."""


@dataclass(frozen=True)
class TableFile:
    """A data file of a version of a table: its bytes; `stats` as in Delta's log, empty where it has none."""

    path: str
    stats: dict[str, Any]
    size: int
    # Kernel's AddFile, needed to remove the file.
    add_action: Any = None

    def bound(self, which: str, column: str) -> Any:
        """The least (`minValues`) or greatest (`maxValues`) value of the column in the file; None: unknown."""
        return self.stats.get(which, {}).get(column)


Removal = Callable[[TableFile], bool]


class TableLog(Protocol):
    """The log of one table; `path` is absolute and qualified, as Hadoop spells it (`file:/lake/groups`)."""

    path: str

    def exists(self) -> bool: ...

    def create(self, schema_json: str, comment: str, properties: dict[str, str]) -> None:
        """Version 0 with the schema, as Spark's CREATE TABLE writes it; nothing if someone else has just made it."""

    def redefine(
        self, schema_json: str, comment: str, properties: dict[str, str], transaction: tuple[str, int]
    ) -> None:
        """An empty table now has this schema.

        Raises ValueError if the table has rows, AlreadyWritten as `commit`, ChangedMeanwhile if someone else has just
        committed.
        """

    def version(self) -> int:
        """The newest version."""

    def entry(self, version: int) -> str | None:
        """The log's entry of that version, as text; None: there is none."""

    def properties(self) -> dict[str, str]: ...

    def set_properties(self, properties: dict[str, str], *, by: str, transaction: tuple[str, int]) -> None:
        """The table now has these properties beside those it had; no commit if it has them. Raises AlreadyWritten as
        `commit`."""

    def schema_json(self) -> str:
        """The table's schema, as Delta's log has it."""

    def features(self) -> set[str]:
        """The features that the table's protocol names for readers."""

    def refusal(self) -> str | None:
        """Why a plain Parquet file may not be added, as the end of a sentence; None: it may."""

    def files(self, version: int | None = None) -> list[TableFile]:
        """The data files of a version (default: the newest)."""

    def missing(self, parts: Sequence[Part]) -> list[str]:
        """Which of the parts the driver does not see, or sees with another size, and what it sees."""

    def last_transaction(self, app_id: str) -> int | None:
        """The version that the application last committed under `app_id`; None: never."""

    def version_as_of(self, app_id: str, transaction: int) -> int:
        """The table's newest version to which the application has committed nothing after that transaction. Raises
        KgroupsError where its log no longer has it."""

    def shut_out(self, transactions: dict[str, int], *, by: str) -> None:
        """Each application has now committed this transaction version here, or a later one; in one commit, or in none
        where all have. Raises ChangedMeanwhile if someone else has just committed."""

    def commit(
        self,
        parts: Sequence[Part],
        *,
        by: str,
        transaction: tuple[str, int] | None,
        remove: Removal | None = None,
        removes: int | None = None,
        changes_rows: bool = True,
    ) -> int:
        """The version that now holds the parts, and of the files before them only those that `remove` does not name.

        One transaction; `by` is in its commit info. `removes`: so many files must be there to remove (None: any
        number). `changes_rows=False` says that the same rows only lie in other files (Delta's dataChange): who follows
        the table as a stream then sees nothing. Raises AlreadyWritten when the application has committed this
        transaction version or a later one, ChangedMeanwhile when files were to be removed and someone else committed.
        """


class Store(Protocol):
    """The logs of all tables of a lake, and the folders they lie in."""

    def table(self, path: str) -> TableLog:
        """The log of the table there, whether there is one or not."""

    def qualified(self, location: str) -> str:
        """The location with its scheme; one without a scheme lies where Hadoop's default file system is."""

    def delete(self, file_or_folder: str) -> None:
        """Deletes it, a folder with all that is in it; nothing if it is not there."""

    def names_in(self, folder: str) -> list[str]:
        """The names of what lies in the folder; none if there is no such folder."""

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        """Bytes and time of the last change (ms) of each file that lies in the folder, by name."""

    def telling_on_stderr(self) -> AbstractContextManager[None]:
        """Within, the output of Delta's statements goes to stderr."""
