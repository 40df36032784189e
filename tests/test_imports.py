"""Imports point one way, top to bottom: bytes and state know nothing of Spark, nothing knows of the command line."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kgroups_spark"

DESIGN = PACKAGE.parent / "docs" / "design.md"


def drawn() -> list[list[str]]:
    """The lines of the drawing of rooms in docs/design.md, the lowest room first."""
    block = DESIGN.read_text().partition("**Rooms.**")[2].partition("```text\n")[2].partition("```")[0]
    return [re.sub(r"^ *\d+ +", "", line).split(", ") for line in block.splitlines()]


LINES = drawn()
WITHOUT_SPARK = ["errors", "extras", "nearest", "attempts", "counts", "number_ranges", "durations", "times", "escapes"]
WITHOUT_SPARK += ["interruption", "java", "records", "messages", "coordinator", "share_coordinator"]
WITHOUT_SPARK += ["transaction_coordinator", "offsets", "storage", "expiry", "replay", "client", "sources", "cluster"]
WITHOUT_SPARK += ["findings", "decoding", "plan", "report", "terminal", "commands", "cli", "entry"]
SPARK = {"pyspark", "delta", "py4j"}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py"))


def part_of(path):
    """`records` of kgroups_spark/records/segment.py, `cli` of kgroups_spark/cli.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path):
    """Dotted names that a file imports, also those inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_part_stands_in_the_drawing_once():
    rooms = [room for line in LINES for room in line]
    assert sorted(rooms) == sorted({part_of(path) for path in modules()} - {"__init__", "__version__"})


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_up_the_drawing(path):
    if part_of(path) == "__init__":
        return
    number = next(number for number, line in enumerate(LINES) if part_of(path) in line)
    allowed = {part_of(path), "__version__"}.union(*LINES[:number])
    own = {name.split(".")[1] for name in imported_modules(path) if name.startswith("kgroups_spark.")}
    assert own <= allowed


@pytest.mark.parametrize("part", WITHOUT_SPARK)
def test_bytes_and_state_know_nothing_of_spark(part):
    files = [path for path in modules() if part_of(path) == part]
    assert files
    for path in files:
        assert not {name.split(".")[0] for name in imported_modules(path)} & SPARK, path


def test_nothing_is_imported_from_a_test():
    """Helpers live in modules of their own: who imports a test file collects its fixtures, and runs it twice."""
    files = [path for name in ("tests", "docs", "benchmarks", "jobs") for path in (PACKAGE.parent / name).rglob("*.py")]
    imported = {(path.name, name) for path in files for name in imported_modules(path)}
    assert [each for each in imported if re.match(r"tests\.(?:\w+\.)*test_", each[1])] == []


def test_the_check_sees_imports_inside_functions(tmp_path):
    path = tmp_path / "late.py"
    path.write_text("def late():\n    from pyspark.sql import functions\n    import delta.tables\n")
    assert imported_modules(path) == {"pyspark.sql.functions", "delta.tables"}
