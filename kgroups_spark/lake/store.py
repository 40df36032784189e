"""The store of a lake: an interface to the logs of its Delta tables.

kernel.py implements it with Delta Kernel, for tables at a path or at a catalog's location; local.py by Python, for
folders of this machine; the tests in memory. `tests/protocol/test_stores.py` checks that all of them give the same
answers and refusals.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from kgroups_spark.lake.parts import Part


class AlreadyWritten(Exception):
    """The table's log already has this transaction: nothing was committed."""


class ChangedMeanwhile(Exception):
    """Another process committed to the table between reading its files and replacing them: nothing was committed."""


class TableFile(NamedTuple):
    """A data file of a version of a table: its size in bytes; `stats` as in Delta's log, empty if the log has none."""

    path: str
    stats: dict[str, Any]
    size: int
    # Kernel's AddFile, needed to remove the file.
    add_action: Any = None

    def bound(self, which: str, column: str) -> Any:
        """The least (`minValues`) or greatest (`maxValues`) value of the column in the file; None: unknown."""
        return self.stats.get(which, {}).get(column)


def total_rows(files: Iterable[TableFile]) -> int:
    """The number of rows in the files, by the table's log."""
    return sum(int(file.stats["numRecords"]) for file in files)


Removal = Callable[[TableFile], bool]


class TableLog(Protocol):
    """The log of one table; `path` is absolute and qualified, as Hadoop spells it (`file:/lake/groups`)."""

    path: str

    def exists(self) -> bool: ...

    def create(self, schema_json: str, comment: str, properties: dict[str, str]) -> None:
        """Writes version 0 with the schema, as Spark's CREATE TABLE does; nothing if another process just did."""

    def version(self) -> int:
        """The newest version."""

    def entry(self, version: int) -> str | None:
        """The log's entry of that version, as text; None: there is none."""

    def properties(self) -> dict[str, str]: ...

    def schema_json(self) -> str:
        """The table's schema, as Delta's log has it."""

    def features(self) -> set[str]:
        """The features that the table's protocol names for readers."""

    def refusal(self) -> str | None:
        """The reason why the table cannot take a plain Parquet file, as the end of a sentence; None: it can."""

    def files(self, version: int | None = None) -> list[TableFile]:
        """The data files of a version (default: the newest)."""

    def missing(self, parts: Sequence[Part]) -> list[str]:
        """A text for each part that the driver does not see, or sees with another size."""

    def last_transaction(self, app_id: str) -> int | None:
        """The version that the application last committed under `app_id`; None: never."""

    def version_as_of(self, app_id: str, transaction: int) -> int:
        """The table's newest version without a commit of the application after that transaction. Raises KgroupsError if
        the log no longer has it."""

    def shut_out(self, transactions: dict[str, int], *, by: str) -> None:
        """Commits this transaction version of each application, unless it has that one or a later one; all in one
        commit, or in none if there is nothing to do. Raises ChangedMeanwhile if another process has just committed."""

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
        """Commits one transaction that adds the parts and removes the files that `remove` chooses; returns its version.

        `by` is in the commit info. `removes`: the number of files that must be there to remove (None: any number).
        `changes_rows=False`: the same rows are only in other files (Delta's dataChange), so a stream on the table sees
        nothing. Raises AlreadyWritten if the application has committed this transaction version or a later one,
        ChangedMeanwhile if files had to be removed and another process committed meanwhile.
        """


class Store(Protocol):
    """The logs of all tables of a lake, and their folders."""

    def table(self, path: str) -> TableLog:
        """The log of the table at the path, whether the table exists or not."""

    def qualified(self, location: str) -> str:
        """The location with its scheme; without one it is on Hadoop's default file system."""

    def delete(self, file_or_folder: str) -> None:
        """Deletes a file, or a folder with its content; does nothing if it does not exist."""

    def names_in(self, folder: str) -> list[str]:
        """The names of the folder's entries; empty if there is no such folder."""

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        """Size in bytes and time of the last change (epoch ms) of each file in the folder, by name."""

    def fetch(self, uri: str, path: str) -> None:
        """Copies a file to a local path."""

    def put(self, path: str, uri: str) -> None:
        """Copies a local file into the store."""


PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def metadata(schema_json: str, comment: str, properties: dict[str, str]) -> dict[str, Any]:
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "description": comment,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_json,
            "partitionColumns": [],
            "configuration": properties,
            "createdTime": int(time.time() * 1000),
        }
    }


def refusal(properties: dict[str, str], schema_json: str) -> str | None:
    """The reason why a table with these properties and columns cannot take a plain Parquet file; None: it can."""
    if properties.get("delta.columnMapping.mode", "none") != "none":
        return "has column mapping"
    if any(name.startswith("delta.constraints.") for name in properties):
        return "has check constraints"
    for feature in ("delta.enableRowTracking", "delta.enableDeletionVectors", "delta.appendOnly"):
        if properties.get(feature, "false").lower() == "true":
            return f"has {feature}"
    for column in json.loads(schema_json)["fields"]:
        special = SPECIAL_COLUMNS.intersection(column["metadata"])
        if special:
            return f"has a column {column['name']} with {min(special)}"
    return None


SPECIAL_COLUMNS = {"delta.generationExpression", "delta.identity.start", "delta.invariants", "CURRENT_DEFAULT"}


_CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint\.(?:\d{10}\.(?P<parts>\d{10})\.)?parquet")


def whole_checkpoints(names: Iterable[str]) -> dict[int, list[str]]:
    """The versions with a complete checkpoint, and its files, of these files of a log."""
    found: dict[tuple[int, int], list[str]] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, names)):
        found.setdefault((int(match["version"]), int(match["parts"] or 1)), []).append(match[0])
    return {version: files for (version, expected), files in found.items() if len(files) == expected}
