"""Lakes that cannot take plain files are refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroups_spark.errors import UsageError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.lake.writer import make_writable


def test_a_table_that_plain_files_would_break_is_refused_with_a_way_out(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.create(local, str(tmp_path / "lake"))
    assert make_writable(lake) is None
    monkeypatch.setattr(type(lake.table("topics")), "refusal", lambda self: "has column mapping")
    with pytest.raises(UsageError, match=r"table \w+ has column mapping, but .*: undo that, or name another lake$"):
        make_writable(lake)
