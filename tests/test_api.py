"""The public API: what `kgroups_spark` offers, by the examples that its docstrings and docs/python.md show."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

import kgroups_spark
from kgroups_spark.api import Lake
from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.audit.run import run_audit
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.form import options_of
from kgroups_spark.cli.main import parse
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.report.figures import GROUP_NAMES
from kgroups_spark.sql.reader import parameters_in
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of
from tests.cli.written_lake import ledger, write_lake
from tests.pages import ROOT, blocks

GROUP = "invoice-export"
EXAMPLES = [text for text in blocks("docs/python.md", "python") if ">>> " in text]
IN_SPARK = {"a lake": EXAMPLES[2], "an audit": EXAMPLES[3], "records": "\n".join(EXAMPLES[4:])}


@pytest.fixture(scope="module")
def made(local, tmp_path_factory):
    """A folder with the demo's `lake`, and with its segments at their path in a checkout."""
    folder = tmp_path_factory.mktemp("made")
    run_audit(local, AuditOptions(str(folder / "lake"), [str(SEGMENTS)]))
    (folder / "kgroups_spark").symlink_to(ROOT / "kgroups_spark")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    """That folder, as the working directory."""
    monkeypatch.chdir(made)
    return made


@pytest.fixture(scope="module")
def lake(made):
    return kgroups_spark.open_lake(made / "lake")


def run_examples(text, names, where):
    """Fails at the first example with another output, and raises an example's exception."""
    test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
    assert test.examples
    try:
        doctest.DebugRunner(verbose=False).run(test, clear_globs=False)
    except doctest.UnexpectedException as error:
        raise error.exc_info[1] from None
    except doctest.DocTestFailure as failure:
        pytest.fail(f"{where}: {failure.example.source.strip()} shows {failure.got}")


def alone(code, **environment):
    """The output of a process of its own, without Java."""
    kept = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "HOME", "LANG")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**kept, "PATH": "", **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_else():
    code = (
        "import sys, kgroups_spark; print([n for n in ('pyspark', 'duckdb', 'pyarrow', 'numpy') if n in sys.modules])"
    )
    assert alone(code) == "[]"


def test_without_spark_what_needs_it_says_so():
    code = """
import sys
class NoSpark:
    def find_spec(name, path=None, target=None):
        if name == "pyspark":
            raise ModuleNotFoundError(name)
import importlib.util
sys.meta_path.insert(0, NoSpark)
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "pyspark" else found(name)
import kgroups_spark
for name in kgroups_spark.__all__:
    getattr(kgroups_spark, name)
uses = {
    "run_audit": lambda: kgroups_spark.run_audit("./new", segments="."),
    "decode": lambda: kgroups_spark.decode(None),
    "spark_session": lambda: kgroups_spark.spark_session("mine", s3=True),
    "KafkaSegmentsDataSource": lambda: kgroups_spark.KafkaSegmentsDataSource({}),
}
for name, use in uses.items():
    try:
        use()
    except kgroups_spark.KgroupsError as error:
        print(name, error)
"""
    lines = alone(code).splitlines()
    assert [line.split()[0] for line in lines] == ["run_audit", "decode", "spark_session", "KafkaSegmentsDataSource"]
    assert all("this needs Spark, and PySpark is not installed: pip install" in line for line in lines)


def test_every_public_name_exists():
    assert sorted(dir(kgroups_spark)) == sorted(kgroups_spark.__all__)
    for name in kgroups_spark.__all__:
        assert getattr(kgroups_spark, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'open_lak'"):
        _ = kgroups_spark.open_lak


def test_the_answer_of_an_audit_has_a_public_type():
    assert inspect.signature(kgroups_spark.run_audit).return_annotation in kgroups_spark.__all__


def test_a_lake_is_read_without_spark_and_without_java(folder):
    code = "import sys, kgroups_spark; print(kgroups_spark.open_lake('./lake').table('groups').num_rows); "
    assert alone(f"{code}print('pyspark' in sys.modules)") == "35\nFalse"


@pytest.mark.parametrize(
    "documented",
    [kgroups_spark, Lake.sql, Lake.table, Lake.ask, kgroups_spark.open_lake],
    ids=lambda each: each.__name__,
)
def test_examples_in_docstrings_run_as_shown(folder, lake, documented):
    names = {"GROUP": GROUP, "lake": lake, "open_lake": kgroups_spark.open_lake}
    run_examples(documented.__doc__ or "", names, str(documented))


def test_examples_on_the_page_run_as_shown_without_spark(folder):
    assert len(EXAMPLES) == 6
    run_examples("\n".join(EXAMPLES[:2]), {}, "docs/python.md")


def test_the_page_is_a_doctest_as_it_is():
    page = doctest.DocTestParser().get_doctest((ROOT / "docs/python.md").read_text(), {}, "page", None, 0)
    assert len(page.examples) > 10
    assert not [example.want for example in page.examples if "```" in example.want + example.source]


@pytest.mark.parametrize("part", one_of(*IN_SPARK))
def test_examples_on_the_page_run_as_shown_in_spark(spark, folder, part):  # type: ignore[no-untyped-def]
    # Python workers of this session stay in the folder in which the tests were started.
    text = IN_SPARK[part].replace("kgroups_spark/demo/segments", str(SEGMENTS))
    run_examples(text, {"kgroups_spark": kgroups_spark, "spark": spark}, "docs/python.md")


NO_ZONE = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.session.timeZone": "Asia/Tokyo"}


def test_both_engines_answer_the_same(spark, folder):  # type: ignore[no-untyped-def]
    by_duckdb, by_spark = kgroups_spark.open_lake(folder / "lake"), kgroups_spark.open_lake(folder / "lake", spark)
    assert by_spark.location == by_duckdb.location
    assert by_spark.last_audit == by_duckdb.last_audit
    assert by_spark.ask("owners", group_id=GROUP) == by_duckdb.ask("owners", group_id=GROUP)
    query = "SELECT group_id, state FROM groups WHERE group_type = :type ORDER BY group_id"
    answers = by_spark.sql(query, type="classic").toArrow(), by_duckdb.sql(query, type="classic")
    assert answers[0].to_pylist() == answers[1].to_pylist() == by_spark.rows(query, type="classic")
    in_list = "SELECT count(*) AS n FROM groups WHERE array_contains(:names, group_id)"
    for names in ([GROUP], []):
        assert by_spark.rows(in_list, names=names) == by_duckdb.rows(in_list, names=names) == [{"n": len(names)}]
    # In a session where TIMESTAMP has no zone, a view's moments would be taken to be in the session's zone.
    as_of = "SELECT known_as_of(:ts) AS known, count(*) AS n FROM groups_as_of(:ts)"
    [known] = by_duckdb.rows("SELECT begins FROM known_history")
    for name, value in NO_ZONE.items():
        spark.conf.set(name, value)
    try:
        elsewhere = kgroups_spark.open_lake(folder / "lake", spark)
        ts = known["begins"] + timedelta(seconds=3)
        assert elsewhere.rows(as_of, ts=ts) == by_duckdb.rows(as_of, ts=ts)
    finally:
        spark.conf.unset("spark.sql.timestampType")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    with pytest.raises(KgroupsError, match="this is not one query"):
        by_spark.sql("DROP TABLE groups")
    # Views of the same name: both lakes are in one session.
    other = kgroups_spark.open_lake(write_lake(folder / "other", {"audits": ledger({})}), spark)
    assert other.rows(query, type="classic") == []
    assert by_spark.rows(query, type="classic") == answers[0].to_pylist()
    # A view of the user, too.
    spark.range(7).createOrReplaceTempView("groups")
    assert by_spark.rows(query, type="classic") == answers[0].to_pylist()


def test_every_question_can_be_asked(lake, chosen):
    assert set(GROUP_NAMES) < set(kgroups_spark.QUESTIONS)
    as_of = lake.last_audit["as_of"]
    for question in chosen.some(kgroups_spark.QUESTIONS, 5, always=GROUP_NAMES):
        about = {"group_id": GROUP} if question in GROUP_NAMES else {}
        span = {"since": as_of - timedelta(days=30), "until": as_of} if question in ("offsets", "rewound") else {}
        assert isinstance(lake.ask(question, **about, **span), list)


def test_internal_tables_are_not_offered_and_wrong_names_are_refused(folder, lake):
    assert set(TABLES) - set(lake.tables) == {name for name, table in TABLES.items() if table.kind == "internal"}
    with pytest.raises(UsageError, match="no table or view comitted_offsets; did you mean committed_offsets"):
        lake.table("comitted_offsets")
    with pytest.raises(UsageError, match="no question expiring_group; did you mean expiring_groups"):
        lake.ask("expiring_group")
    for name in ("./nothing", "nothing"):
        with pytest.raises(UsageError, match=r"no lake at \./nothing: there is no such folder; to create one: kgroups"):
            kgroups_spark.open_lake(name)
    with pytest.raises(UsageError, match="the location of the lake is empty"):
        kgroups_spark.open_lake("")
    with pytest.raises(KgroupsError, match="Table with name grups does not exist") as refused:
        lake.rows("SELECT * FROM grups")
    assert ".tables" not in str(refused.value)
    assert repr(lake) == f"LakeByDuckDb({str(folder / 'lake')!r})"
    with pytest.raises(KgroupsError, match="the answer has a value that cannot be shown"):
        lake.rows("SELECT TIMESTAMPTZ '12000-01-01 00:00:00Z' AS odd")
    with pytest.raises(KgroupsError, match="this is not one query"):
        lake.sql("DROP TABLE groups")


def test_a_missing_or_unexpected_parameter_is_refused(lake):
    for parameters, message in (
        ({}, "question states needs group_id"),
        ({"group_id": GROUP, "since": 1}, "question states has no parameter since; it takes group_id"),
    ):
        with pytest.raises(UsageError, match=message):
            lake.ask("states", **parameters)
    with pytest.raises(UsageError, match="question offsets needs group_id, since, until"):
        lake.ask("offsets")
    with pytest.raises(UsageError, match="question lake has no parameter group_id; it takes none"):
        lake.ask("lake", group_id=GROUP)
    for ask in (lake.sql, lake.rows):
        with pytest.raises(UsageError, match=r"grup is not in the query as :grup; did you mean group\?"):
            ask("SELECT :group", group=GROUP, grup=GROUP)
        with pytest.raises(UsageError, match="parameter group is not in the query as :group"):
            ask("SELECT * FROM groups WHERE group_id = ':group'", group=GROUP)
        with pytest.raises(UsageError, match="ts: 2026-11-16 00:00:00 has no zone: give it one"):
            ask("SELECT * FROM groups_as_of(:ts)", ts=datetime(2026, 11, 16))


def test_parameters_are_found_outside_the_quotes_and_comments_of_each_dialect():
    text = r"SELECT 'it\'s :a', :b, `:c`, x::int, ':d' -- :e"
    assert parameters_in(text, "spark") == ["b"]
    assert parameters_in(r"SELECT e'it\'s :a', :b, $$it's :c$$, 'e' :d", "duckdb") == ["b", "d"]
    assert parameters_in("SELECT 'a\\', :b, \":c\", 'it''s :d' || :b /* :e */", "duckdb") == ["b"]


def test_an_audit_needs_one_source_and_a_known_release():
    for sources in ({}, {"segments": ".", "bootstrap_servers": "localhost:9092"}):
        with pytest.raises(UsageError, match="give one of them"):
            kgroups_spark.run_audit("./new", **sources)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"release '9\.9' is unknown"):
        kgroups_spark.run_audit("./new", segments=".", release_version="9.9")


@pytest.fixture
def audited(monkeypatch):
    """The options of the audits that would have been run; each lacks records."""
    seen = []

    def run(_, options):
        seen.append(options)
        return SimpleNamespace(
            lacks_records=True, lines=lambda: iter(["audit 1: ...", "  quarantine: 1 corrupt_batch"])
        )

    monkeypatch.setattr("kgroups_spark.audit.run.run_audit", run)
    monkeypatch.setattr("kgroups_spark.spark.session.spark_session", lambda *_, **__: None)
    return seen


NOON = datetime(2026, 11, 16, 12, tzinfo=timezone(timedelta(hours=1)))
AS_OPTIONS = [
    ("as_of", NOON, "--as-of", "2026-11-16T11:00"),
    ("as_of", "2026-11-16T11:00", "--as-of", "2026-11-16 11:00Z"),
    ("retention", timedelta(days=7), "--retention", "7d"),
    ("retention", "1d12h", "--retention", "36h"),
    ("release_version", "3.9", "--release-version", "3.9"),
    ("partitions", [3, 1, 3], "--partition", "3,1,3"),
    ("partitions", "3,1", "--partition", "3,1"),
    ("include", ["share-state"], "--include", "share-state"),
    ("include", (), "--include", "none"),
    ("include", "none", "--include", "none"),
    ("offsets_partitions", 50, "--offsets-partitions", "50"),
    ("share_delivery_count_limit", 7, "--share-delivery-count-limit", "7"),
    ("full", True, "--full", None),
    ("accept_log_change", True, "--accept-log-change", None),
    ("delete_retention", timedelta(hours=1), "--delete-retention", "1h"),
    ("max_bytes_per_second", "20m", "--max-bytes-per-second", "20000000"),
    ("max_bytes_per_second", 20_000_000, "--max-bytes-per-second", "20m"),
    ("take_over", True, "--take-over", None),
]


@pytest.mark.parametrize(("name", "given", "option", "typed"), AS_OPTIONS, ids=lambda each: str(each).replace(" ", "_"))
def test_arguments_of_an_audit_equal_options_of_the_command(name, given, option, typed, audited):
    is_live = name == "max_bytes_per_second"
    source = {"bootstrap_servers": "localhost:1"} if is_live else {"segments": "s"}
    kgroups_spark.run_audit("./new", **source, **{name: given})  # type: ignore[arg-type]
    words = ["--bootstrap-server=localhost:1"] if is_live else ["--segments=s"]
    arguments = parse(["audit", "--lake=./new", *words, option, *([] if typed is None else [typed])])
    others = {"segments": ["s"][is_live:], "client": audited[0].client, "progress": audited[0].progress}
    assert audited == [options_of(AuditOptions, arguments, **others)]


def test_an_audit_has_an_argument_for_each_option_of_the_command():
    renamed = {
        "bootstrap_server": "bootstrap_servers",
        "command_config": "properties",
    }
    options = {name for name in vars(parse(["audit", "--lake=x"])) if name not in ("run", "command", "known")}
    options -= {"all_commands"}
    taken = set(inspect.signature(kgroups_spark.run_audit).parameters) - {"spark", "progress"}
    assert taken == {renamed.get(name, name) for name in options}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"as_of": datetime(2026, 11, 16)}, "as_of: 2026-11-16 00:00:00 has no zone"),
        ({"retention": 7}, "retention: '7' has no unit: use 7ms"),
        ({"delete_retention": timedelta(days=-1)}, "delete_retention: invalid duration '-86400000ms'"),
        ({"partitions": []}, "partitions: invalid partition 'none'"),
        ({"include": ["share"]}, "include: 'share' is unknown; use share-state, transaction-state or none"),
        ({"max_bytes_per_second": "20m"}, "max_bytes_per_second needs a live cluster: give bootstrap_servers"),
        ({"properties": {}}, "properties needs a live cluster"),
        ({"full": "false"}, "full is True or False, not 'false'"),
        ({"accept_log_change": "no"}, "accept_log_change is True or False, not 'no'"),
        ({"take_over": 1}, "take_over is True or False, not 1"),
        ({"strict": None}, "strict is True or False, not None"),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, dict) else "",
)
def test_a_wrong_argument_of_an_audit_is_named(arguments, message, audited):
    with pytest.raises(UsageError, match=re.escape(message)):
        kgroups_spark.run_audit("./new", segments="s", **arguments)  # type: ignore[arg-type]
    assert audited == []


def test_a_strict_audit_that_lacks_records_raises_its_summary(audited):
    with pytest.raises(KgroupsError, match=r"the audit counts, but.*\n.*\n  quarantine: 1 corrupt_batch"):
        kgroups_spark.run_audit("./new", segments="s", strict=True)
    kgroups_spark.run_audit("./new", segments="s")
