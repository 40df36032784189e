"""A cluster that cannot be reached is reported before Spark starts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kgroups_spark.cli import audit
from kgroups_spark.cli import main as cli


@pytest.fixture
def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("given_ms", [None, 700])
def test_a_port_where_nothing_listens(
    nobody: str,
    given_ms: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(audit, "FIRST_TRY_MS", 300)
    properties = tmp_path / "client.properties"
    properties.write_text("" if given_ms is None else f"default.api.timeout.ms={given_ms}\n")
    command = ["audit", "--lake", str(tmp_path / "lake"), "--bootstrap-server", nobody]
    assert cli.main([*command, "--command-config", str(properties)]) == 1
    waiting, gave_up = capsys.readouterr().err.splitlines()
    assert waiting == f"connecting to {nobody}"
    assert (
        gave_up
        == f"kgroups: no broker has answered{'' if given_ms is None else ' in 1 s'}: nothing listens at {nobody}"
    )
