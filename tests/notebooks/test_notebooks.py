"""The notebooks, run over the lake of the shipped segments, whose story is known; their answers are in answers.txt.
`pytest --regen` writes it again, and a person reads the difference."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

import kgroups_spark
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.errors import UsageError

FOLDER = Path(__file__).parents[2] / "notebooks"
ANSWERS = Path(__file__).parent / "answers.txt"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
Run = Callable[[str], nbformat.NotebookNode]


@pytest.fixture(scope="module")
def story(local, tmp_path_factory):
    location = str(tmp_path_factory.mktemp("story") / "lake")
    run_audit(local, AuditOptions(location, [str(SEGMENTS)]))
    return location


@pytest.fixture
def lake(story, monkeypatch):
    """The lake is the one that notebooks read."""
    monkeypatch.setenv("KGROUPS_LAKE", story)


def in_a_kernel(name):
    """The notebook with its outputs, run as Jupyter does: a process, in which one on Spark starts a JVM. Raises
    CellExecutionError for a cell that fails."""
    from nbclient import NotebookClient

    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    # Columns of a table are not to be broken into several parts.
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import pandas\npandas.set_option('display.width', 1000)"))
    notebook.cells.insert(1, nbformat.v4.new_code_cell("pandas.set_option('display.max_columns', 50)"))
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    return notebook


def in_this_process(name):
    """The same without a kernel; on Spark its session is that of the tests. Raises what a cell raises."""
    import altair as alt
    import pandas as pd
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

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


def as_text(value):
    """An output as a kernel writes it into a notebook: images in base64."""
    return b64encode(value).decode() if isinstance(value, bytes) else value


def said(notebook):
    """The outputs of the cells with the tag `answer`, with single blanks, and the number of drawings."""
    lines, drawings = [], 0
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        drawings += sum("image/png" in output.get("data", {}) for output in outputs)
        if "answer" in cell.metadata.get("tags", []):
            [output] = outputs
            lines += [*re.sub("[ \t]+", " ", output.data["text/plain"]).splitlines(), ""]
    return "\n".join([*lines, f"{drawings} drawings", ""])


def check(run, name, config):
    head, title, rest = ANSWERS.read_text().partition(f"# {name}\n")
    before, end, others = rest.partition("\n# ")
    now = said(run(name))
    if config.getoption("regen"):
        ANSWERS.write_text(head + title + now + end + others)
    else:
        assert now.strip() == before.strip()


def test_there_are_six_notebooks():
    assert NAMES == ["expiring_groups", "group_history", "incident", "migration", "share_groups", "transactions"]


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_stored_without_outputs(name):
    """Outputs depend on the lake. Without them, a change of the file is a change of what the notebook asks."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_use_only_the_public_api(name):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    public = {f"kgroups_spark.{each}" for each in kgroups_spark.__all__}
    assert set(re.findall(r"kgroups_spark[\w.]*", code)) - public == {"kgroups_spark"}


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    ("run", "name"),
    [
        pytest.param(in_a_kernel, "incident", marks=pytest.mark.in_turn("a notebook in a kernel")),
        *((in_this_process, name) for name in NAMES if name not in ("incident", "expiring_groups")),
        *(pytest.param(in_a_kernel, name, marks=pytest.mark.soak) for name in NAMES if name != "incident"),
    ],
)
def test_a_notebook_answers_as_the_story_is_known(run, name, pytestconfig):
    check(run, name, pytestconfig)


@pytest.mark.usefixtures("lake", "spark")
@pytest.mark.in_turn("a notebook on Spark")
def test_expiring_offsets_in_the_session_of_the_tests(pytestconfig):
    """In a kernel it takes most of a minute: its JVM knows nothing of a test's small lakes."""
    check(in_this_process, "expiring_groups", pytestconfig)


def test_a_missing_lake_fails_the_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("KGROUPS_LAKE", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no lake at"):
        in_this_process("incident")
