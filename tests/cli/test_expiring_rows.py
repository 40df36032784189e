"""`kgroups expiring`; made_screens.txt has its rows. The decisions themselves are tested in tests/expiry."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroups_spark.cli.expiring import GROUPS_SCREEN, OFFSETS_SCREEN, expires_in
from kgroups_spark.cli.main import main
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import LAST_MS, to_datetime
from tests.cli.written_lake import ledger, write_lake


@pytest.mark.parametrize("options", ["", "--retention 8d"])
def test_a_duration_after_an_audit_of_the_last_day_ends_with_the_year_9999(
    tmp_path: Path, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = write_lake(tmp_path / "lake", {"audits": ledger({"as_of": to_datetime(LAST_MS)})})
    assert main(["expiring", "--lake", lake, "--within", "7d", *options.split()]) == 0
    assert "will expire by 9999-12-31 23:59:59 UTC" in capsys.readouterr().err


def test_the_time_left_is_in_words() -> None:
    hours = (-1, 0, 12, 24, 100)
    assert [expires_in(hour * 3_600_000) for hour in hours] == ["now", "now", "12h", "1d", "4d 4h"]


def test_column_names_are_those_of_the_tables() -> None:
    own = {"offset_count", "expires_in"}
    contract = {*TABLES["offset_expiry"].columns.names, *TABLES["groups"].columns.names}
    assert {column.name for column in (*GROUPS_SCREEN, *OFFSETS_SCREEN)} - own <= contract
