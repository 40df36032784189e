"""A first-time user of a lake mistypes or lacks something."""

from __future__ import annotations

import pytest

from kgroups_spark.cli.main import main
from tests.cli.story_reader import story
from tests.cli.written_lake import ledger, write_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    tables = dict(story().tables) | {"audits": ledger({"as_of": story().last_audit["as_of"], "partitions": []})}
    return write_lake(tmp_path_factory.mktemp("story"), tables)


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> str:
    row = {"status": "running", "finished_at": None}
    return write_lake(tmp_path_factory.mktemp("unfinished") / "lake", {"audits": ledger(row)})


@pytest.mark.parametrize("command", ["groups", "describe --all-groups", "history --all-groups", "expiring", "pending"])
@pytest.mark.parametrize("form", ["table", "csv"])
def test_before_an_audit_has_finished_nothing_is_printed(
    command: str, form: str, unfinished: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--lake", unfinished, "--format", form]) == 1
    said = f"kgroups: the lake at {unfinished} has no finished audit: run kgroups audit first\n"
    assert capsys.readouterr() == ("", said)


def test_reading_without_any_engine_suggests_the_smaller_extra(
    lake: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroups_spark.cli.open_lake.has_pyspark", lambda: False)
    monkeypatch.setattr("kgroups_spark.sql.by_duckdb.find_spec", lambda name: None)
    assert main(["groups", "--lake", lake]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "pip install 'kgroups-spark[read]'" in err
    assert "[local]" not in err


def test_spark_without_pandas_names_the_extra(
    lake: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroups_spark.errors.find_spec", lambda name: None)
    assert main(["groups", "--lake", lake, "--engine", "spark"]) == 1
    said = "kgroups: PySpark needs pandas, which is not installed: pip install 'kgroups-spark[cluster]'\n"
    assert capsys.readouterr() == ("", said)
