"""The notebooks, run over the lake of the shipped segments; their answers agree with the story of these segments."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import altair as alt
import nbformat
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from traitlets.config import Config

import kgroups_spark
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.errors import UsageError
from kgroups_spark.lake.local import Local

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
Run = Callable[[str], nbformat.NotebookNode]


@pytest.fixture(scope="module")
def story(local: Local, tmp_path_factory: pytest.TempPathFactory) -> str:
    location = str(tmp_path_factory.mktemp("story") / "lake")
    run_audit(local, AuditOptions(location, [str(SEGMENTS)]))
    return location


@pytest.fixture
def lake(story: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake is the one that notebooks read."""
    monkeypatch.setenv("KGROUPS_LAKE", story)


def in_a_kernel(name: str) -> nbformat.NotebookNode:
    """The notebook with its outputs, run as Jupyter does: a process, in which one on Spark starts a JVM. Raises
    CellExecutionError for a cell that fails."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    # Columns of a table are not to be broken into several parts.
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import pandas\npandas.set_option('display.width', 1000)"))
    notebook.cells.insert(1, nbformat.v4.new_code_cell("pandas.set_option('display.max_columns', 50)"))
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    return notebook


def in_this_process(name: str) -> nbformat.NotebookNode:
    """The same without a kernel; on Spark its session is that of the tests. Raises what a cell raises."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    quiet = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell(config=quiet, user_module=ModuleType("notebook"))
    active = alt.renderers.active
    with pd.option_context("display.width", 1000, "display.max_columns", 50):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                done = shell.run_cell(cell.source)
                done.raise_error()
                data, _ = shell.display_formatter.format(done.result)
                texts = {kind: as_text(value) for kind, value in data.items()}
                cell.outputs = [nbformat.v4.new_output("execute_result", data=texts)]
    alt.renderers.enable(active)
    return notebook


def as_text(value: str | bytes) -> str:
    """An output as a kernel writes it into a notebook: images in base64."""
    return b64encode(value).decode() if isinstance(value, bytes) else value


# A notebook on Spark takes most of a minute in a kernel, whose JVM knows nothing of a test's small lakes.
by_each = pytest.mark.parametrize("run", [in_this_process, pytest.param(in_a_kernel, marks=pytest.mark.soak)])


def answers(notebook: nbformat.NotebookNode) -> list[str]:
    """The outputs of the cells with the tag `answer`, with single blanks."""
    found = []
    for cell in notebook.cells:
        if "answer" in cell.metadata.get("tags", []):
            [output] = cell.outputs
            found.append(re.sub("[ \t]+", " ", output.data["text/plain"]))
    return found


def drawings(notebook: nbformat.NotebookNode) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_there_are_six_notebooks() -> None:
    assert NAMES == ["expiring_groups", "group_history", "incident", "migration", "share_groups", "transactions"]


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_stored_without_outputs(name: str) -> None:
    """Outputs depend on the lake. Without them, a change of the file is a change of what the notebook asks."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_use_only_the_public_api(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    public = {f"kgroups_spark.{each}" for each in kgroups_spark.__all__}
    assert set(re.findall(r"kgroups_spark[\w.]*", code)) - public == {"kgroups_spark"}


@pytest.mark.usefixtures("lake")
def test_the_incident_is_the_reset_of_the_story() -> None:
    notebook = in_a_kernel("incident")
    at_night, near, rewound, sentence = answers(notebook)
    assert at_night.splitlines()[1:] == [
        "0 2026-11-11 02:47:36.564000+00:00 invoice-export payments no_members 3 12192"
    ]
    assert [near.count(event) for event in ("member_left", "offset_rewound", "member_joined")] == [2, 3, 2]
    rows = [line.split() for line in rewound.splitlines()[1:]]
    assert [row[1:6] for row in rows] == [
        ["payments", "0", "45608", "41719", "3889"],
        ["payments", "1", "60247", "55839", "4408"],
        ["payments", "2", "50310", "46415", "3895"],
    ]
    # The owner of the partition before the reset, until when, and its owner when the group had caught up.
    assert [(row[6], row[8], row[11]) for row in rows] == [
        ("invoice-export-44bd8741-6grfq", "02:41:47.025000+00:00", "invoice-export-44bd8741-nq7pb"),
        ("invoice-export-44bd8741-khkk9", "02:41:47.025000+00:00", "invoice-export-44bd8741-srcwv"),
        ("invoice-export-44bd8741-khkk9", "02:41:47.025000+00:00", "invoice-export-44bd8741-srcwv"),
    ]
    assert sentence == (
        "'invoice-export: 3 partitions of payments were rewound at 2026-11-11 02:47:36 UTC (no_members), "
        "12,192 records were read again until 2026-11-11 09:16 UTC.'"
    )
    assert drawings(notebook) == 2


@pytest.mark.usefixtures("lake")
@by_each
def test_the_group_of_the_history_was_migrated(run: Run) -> None:
    notebook = run("group_history")
    [changes] = answers(notebook)
    [change] = changes.splitlines()[1:]
    assert change.split()[1:] == ["2026-11-07", "10:05:00.755000+00:00", "classic", "consumer"]
    assert drawings(notebook) == 2


@pytest.mark.usefixtures("lake", "spark")
@by_each
def test_expiring_offsets_equal_the_output_of_kgroups_expiring(run: Run) -> None:
    notebook = run("expiring_groups")
    groups, what_if, if_empty = answers(notebook)
    assert [line.split()[1:5] for line in groups.splitlines()[1:]] == [
        ["one-off-export", "classic", "Empty", "2"],
        ["cart-backfill", "classic", "Empty", "2"],
        ["orders-etl-v1", "classic", "Empty", "6"],
        ["console-consumer-96374", "classic", "Empty", "2"],
        ["console-consumer-87781", "classic", "Empty", "3"],
        ["nightly-settlement", "classic", "Empty", "3"],
    ]
    assert [line.split()[1:] for line in what_if.splitlines()[1:]] == [
        ["1d", "12", "4", "18", "18"],
        ["3d", "12", "4", "18", "18"],
        ["7d", "4", "2", "18", "18"],
        ["14d", "0", "0", "4", "18"],
        ["30d", "0", "0", "0", "18"],
    ]
    assert if_empty.splitlines()[1:] == ["0 audit-archiver consumer 2 2 2"]
    assert drawings(notebook) == 2


def cells_of(answer: str) -> list[list[str]]:
    """The rows of a table without their numbers."""
    return [line.split()[1:] for line in answer.splitlines()[1:]]


@pytest.mark.usefixtures("lake")
@by_each
def test_records_that_a_share_group_gave_up_and_the_one_that_it_tries(run: Run) -> None:
    notebook = run("share_groups")
    given_up, tried, an_hour_before = map(cells_of, answers(notebook))
    assert [row[4:] for row in given_up] == [
        ["0", "326500", "326500", "1", "5"],
        ["1", "349911", "349912", "2", "5"],
        ["2", "217600", "217600", "1", "5"],
        ["1", "350871", "350871", "1", "1"],
    ]
    assert tried == [["packing-tasks", "shipments", "1", "351204", "351204", "available", "3"]]
    assert [row[1:] for row in an_hour_before] == [["0", "328045"], ["1", "350444"], ["2", "217718"]]
    assert drawings(notebook) == 1


@pytest.mark.usefixtures("lake")
@by_each
def test_the_transaction_that_hangs_was_over_before_its_offsets_came(run: Run) -> None:
    notebook = run("transactions")
    open_now, states, ended, sentence = answers(notebook)
    oldest, ordinary = cells_of(open_now)
    assert oldest == ["tx-payments-ledger-4882e7d3-vg6q2", "4010", "[payments-ledger]", "1", "2026-11-13",
                      "06:45:36.650000+00:00", "True"]  # fmt: skip
    assert (ordinary[1], ordinary[-1]) == ("4015", "False")
    assert [(row[1][:12], row[2]) for row in cells_of(states)][:3] == [
        ("06:45:36.265", "CompleteAbort"),
        ("06:45:36.259", "PrepareAbort"),
        ("06:44:36.238", "Ongoing"),
    ]
    assert [row[:2] for row in cells_of(ended)] == [
        [group, how] for group in ("billing-engine", "payments-ledger") for how in ("aborted", "committed")
    ]
    assert sentence == (
        "'kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic __consumer_offsets --partition 7 "
        "--start-offset 2123'"
    )
    assert drawings(notebook) == 1


@pytest.mark.usefixtures("lake")
@by_each
def test_the_groups_that_can_move_are_those_of_kgroups_migration(run: Run) -> None:
    notebook = run("migration")
    standing, moved = map(cells_of, answers(notebook))
    assert standing == [
        ["online", "-", "17", "39"],
        ["uses", "it", "already", "-", "9", "22"],
        ["when", "empty", "no_members", "6", "0"],
        ["no", "protocol_type", "1", "3"],
    ]
    assert [(row[0], *row[-2:]) for row in moved] == [
        ("shipment-tracker", "classic", "consumer"),
        ("loyalty-points", "consumer", "classic"),
    ]
    assert drawings(notebook) == 1


def test_a_missing_lake_fails_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUPS_LAKE", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no lake at"):
        in_this_process("incident")
