"""Imports point one way, top to bottom: bytes and state know nothing of Spark, nothing knows of the command line."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kgroups_spark"

# Each may import itself and what stands before it: first what every room may use, then the rooms.
ORDER = ["__version__", "errors", "nearest", "attempts", "counts", "number_ranges", "durations", "times", "escapes"]
ORDER += ["interruption", "java", "jvm", "session", "records", "messages", "coordinator", "share_coordinator"]
ORDER += ["transaction_coordinator", "offsets", "storage", "tables", "lake", "expiry", "replay", "client", "sources"]
ORDER += ["cluster", "views", "findings", "decoding", "tasks", "history", "plan", "state_logs", "audit", "upkeep"]
ORDER += ["compare", "report", "terminal", "reading", "commands", "data_sources", "api", "cli", "entry", "__main__"]
WITHOUT_SPARK = ["errors", "nearest", "attempts", "counts", "number_ranges", "durations", "times", "escapes"]
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


def test_every_part_has_its_place_in_the_order():
    assert {part_of(path) for path in modules()} - {"__init__"} <= set(ORDER)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    if part_of(path) == "__init__":
        return
    allowed = ORDER[: ORDER.index(part_of(path)) + 1]
    own = {name.split(".")[1] for name in imported_modules(path) if name.startswith("kgroups_spark.")}
    assert own <= set(allowed)


@pytest.mark.parametrize("part", WITHOUT_SPARK)
def test_bytes_and_state_know_nothing_of_spark(part):
    files = [path for path in modules() if part_of(path) == part]
    assert files
    for path in files:
        assert not {name.split(".")[0] for name in imported_modules(path)} & SPARK, path


def test_the_check_sees_imports_inside_functions(tmp_path):
    path = tmp_path / "late.py"
    path.write_text("def late():\n    from pyspark.sql import functions\n    import delta.tables\n")
    assert imported_modules(path) == {"pyspark.sql.functions", "delta.tables"}
