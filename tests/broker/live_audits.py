"""Audits of live clusters as tests run them: by themselves, or as the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kgroups_spark.audit.run import AuditOptions, AuditSummary, run_audit
from kgroups_spark.cli import main as cli
from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.cluster.live_log import ONE_BATCH
from kgroups_spark.cluster.requests import FetchAnswer
from tests.broker.small_log import of_the_log
from tests.nights.lakes import rows

# By when expiry is judged, so that it does not matter when audits run; long before anything expires.
AS_OF = 1_700_000_000_000
USUAL: dict[str, Any] = {"as_of": AS_OF, "include": ()}


def live_audit(session: Any, lake: Path, address: str, **options: Any) -> AuditSummary:
    """An audit of a cluster without protection, of __consumer_offsets alone; `properties` for its client."""
    client = client_properties(address, options.pop("properties", {}))
    return run_audit(session, AuditOptions(str(lake), client=client, **{**USUAL, **options}))


def copy_audit(session: Any, lake: Path, log: Path, **options: Any) -> dict[str, list[str]]:
    """The tables after an audit of a copy of the log, as `of_the_log` gives them."""
    options = {"as_of": AS_OF, "release_version": "4.3", **options}
    run_audit(session, AuditOptions(str(lake), [str(log)], **options))
    return of_the_log(lake)


@contextmanager
def at_fetch(number: int, act: Callable[[], object], partition: int | None = None) -> Iterator[None]:
    """Acts before the `number`-th fetch of tasks in this process from this partition (None: from any). Checks that they
    have fetched since."""
    fetch, seen = Cluster.fetch, list[int]()

    def fetched(self: Cluster, topic: str, of: int, offset: int, *, max_bytes: int, **more: Any) -> FetchAnswer:
        # Smaller fetches are of planning.
        if max_bytes > ONE_BATCH and partition in (None, of):
            seen.append(of)
            if len(seen) == number:
                act()
        return fetch(self, topic, of, offset, max_bytes=max_bytes, **more)

    with mock.patch.object(Cluster, "fetch", fetched):
        yield
    assert len(seen) > number


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said on stderr, line by line."""

    code: int
    lines: list[str]

    @property
    def last(self) -> str:
        return self.lines[-1]


class AuditCommand:
    """`kgroups audit` in this process; `folder` is for its properties file."""

    def __init__(self, capfd: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capfd, self._folder = capfd, folder

    def __call__(self, lake: Path, address: str, *options: str, properties: Mapping[str, str] | None = None) -> Said:
        """`properties`: of the client."""
        file = self._folder / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in (properties or {}).items()))
        command = ["audit", "--lake", str(lake), "--bootstrap-server", address, "--command-config", str(file)]
        self._capfd.readouterr()
        code = cli.main([*command, "--as-of", str(AS_OF), "--include", "none", *options])
        out, err = self._capfd.readouterr()
        assert out == "" and "Traceback" not in err, err
        return Said(code, err.splitlines())


def statuses(lake: Path) -> list[str]:
    """The status of every row of the ledger, in the order of audits."""
    return [row["status"] for row in sorted(rows(lake, "audits"), key=lambda row: (row["audit_id"], row["status"]))]


def last_finished(lake: Path) -> dict[str, Any]:
    """The ledger's row."""
    return max((row for row in rows(lake, "audits") if row["status"] == "finished"), key=lambda row: row["audit_id"])


def files_of(folder: Path) -> dict[str, int]:
    """Every file below the folder, and when it was last written."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
