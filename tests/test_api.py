"""The public API: what `kgroups_spark` offers, by the examples that its docstrings and docs/python.md show."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest

import kgroups_spark
from kgroups_spark.api import Lake, LakeByDuckDb
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.report.queries import GROUP_NAMES
from kgroups_spark.tables.schemas import TABLES
from tests.pages import ROOT, blocks

DATA = Path(__file__).parent / "data"
GROUP = "search-11b239"
EXAMPLES = [text for text in blocks("docs/python.md", "python") if ">>> " in text]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a `lake` of two nights and `segments` of one partition."""
    with zipfile.ZipFile(DATA / "lakes" / "layout-6.zip") as archive:
        archive.extractall(tmp_path)
    (tmp_path / "segments").symlink_to(DATA / "segments" / "classic-4.3")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_examples(text: str, names: dict[str, object], where: str) -> None:
    """Fails at the first example that shows something else, and raises what an example raises."""
    test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
    assert test.examples
    try:
        doctest.DebugRunner(verbose=False).run(test, clear_globs=False)
    except doctest.UnexpectedException as error:
        raise error.exc_info[1] from None
    except doctest.DocTestFailure as failure:
        pytest.fail(f"{where}: {failure.example.source.strip()} shows {failure.got}")


def alone(code: str, **environment: str) -> str:
    """The output of a process of its own, without Java."""
    kept = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "HOME", "LANG")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**kept, "PATH": "", **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys, kgroups_spark; print([n for n in ('pyspark', 'duckdb', 'pyarrow', 'numpy') if n in sys.modules])"
    )
    assert alone(code) == "[]"


def test_every_public_name_is_there() -> None:
    for name in kgroups_spark.__all__:
        assert getattr(kgroups_spark, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'open_lak'"):
        _ = kgroups_spark.open_lak


def test_a_lake_is_read_without_spark_and_without_java(folder: Path) -> None:
    code = "import sys, kgroups_spark; print(kgroups_spark.open_lake('./lake').table('groups').num_rows); "
    assert alone(f"{code}print('pyspark' in sys.modules)") == "11\nFalse"


@pytest.mark.parametrize(
    "documented",
    [kgroups_spark, Lake.sql, Lake.table, Lake.ask, kgroups_spark.open_lake],
    ids=lambda each: each.__name__,
)
def test_the_docstrings_examples(folder: Path, documented: object) -> None:
    names = {"GROUP": GROUP, "lake": kgroups_spark.open_lake("./lake"), "open_lake": kgroups_spark.open_lake}
    run_examples(documented.__doc__ or "", names, str(documented))


def test_the_pages_examples_without_spark(folder: Path) -> None:
    assert len(EXAMPLES) == 5
    run_examples("\n".join(EXAMPLES[:2]), {}, "docs/python.md")


def test_the_pages_examples_in_spark(spark, folder: Path) -> None:  # type: ignore[no-untyped-def]
    # Python workers of this session stay in the folder in which the tests were started.
    text = "\n".join(EXAMPLES[2:]).replace("./segments", str(folder / "segments"))
    run_examples(text, {"kgroups_spark": kgroups_spark}, "docs/python.md")


def test_both_engines_answer_the_same(spark, folder: Path) -> None:  # type: ignore[no-untyped-def]
    by_duckdb, by_spark = kgroups_spark.open_lake(folder / "lake"), kgroups_spark.open_lake(folder / "lake", spark)
    assert by_spark.location == by_duckdb.location
    assert by_spark.last_audit == by_duckdb.last_audit
    assert by_spark.ask("owners", group_id=GROUP) == by_duckdb.ask("owners", group_id=GROUP)
    query = "SELECT group_id, state FROM groups WHERE group_type = :type ORDER BY group_id"
    answers = by_spark.sql(query, type="classic").toArrow(), by_duckdb.sql(query, type="classic")
    assert answers[0].to_pylist() == answers[1].to_pylist() == by_spark.rows(query, type="classic")
    with pytest.raises(KgroupsError, match="this is not one query"):
        by_spark.sql("DROP TABLE groups")


def test_every_question_can_be_asked(folder: Path) -> None:
    lake = kgroups_spark.open_lake("./lake")
    assert set(GROUP_NAMES) < set(kgroups_spark.QUESTIONS)
    as_of = lake.last_audit["as_of"]
    for question in kgroups_spark.QUESTIONS:
        about = {"group_id": GROUP} if question in GROUP_NAMES else {}
        span = {"since": as_of - timedelta(days=30), "until": as_of} if question in ("offsets", "rewound") else {}
        assert isinstance(lake.ask(question, **about, **span), list)


def test_internal_tables_are_not_offered_and_wrong_names_are_refused(folder: Path) -> None:
    lake: LakeByDuckDb = kgroups_spark.open_lake("./lake")
    assert set(TABLES) - set(lake.tables) == {name for name, table in TABLES.items() if table.kind == "internal"}
    with pytest.raises(UsageError, match="no table or view comitted_offsets; did you mean committed_offsets"):
        lake.table("comitted_offsets")
    with pytest.raises(UsageError, match="no question expiring_group; did you mean expiring_groups"):
        lake.ask("expiring_group")
    with pytest.raises(UsageError, match=r"no lake at \./nothing"):
        kgroups_spark.open_lake("./nothing")
    with pytest.raises(KgroupsError, match="this is not one query"):
        lake.sql("DROP TABLE groups")


def test_an_audit_needs_one_source_and_a_release_that_is_known() -> None:
    for sources in ({}, {"segments": ".", "bootstrap_servers": "localhost:9092"}):
        with pytest.raises(UsageError, match="give one of them"):
            kgroups_spark.run_audit("./new", **sources)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"release '9\.9' is unknown"):
        kgroups_spark.run_audit("./new", segments=".", release_version="9.9")


def test_the_page_is_linked() -> None:
    assert "(docs/python.md)" in (ROOT / "README.md").read_text()
