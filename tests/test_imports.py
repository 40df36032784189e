"""Imports point one way, top to bottom: bytes and state know nothing of Spark, nothing knows of the command line."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.pages import statements

PACKAGE = Path(__file__).parent.parent / "kgroups_spark"

DESIGN = PACKAGE.parent / "docs" / "design.md"


def drawn() -> list[list[str]]:
    """The lines of the drawing of rooms in docs/design.md, the lowest room first."""
    block = DESIGN.read_text().partition("**Rooms.**")[2].partition("```text\n")[2].partition("```")[0]
    return [re.sub(r"^ *\d+ +", "", line).split(", ") for line in block.splitlines()]


LINES = drawn()
SPARK = {"pyspark", "delta", "py4j"}
# The files that import Spark, by folder: what runs in a session or in its tasks. All others work without a JVM.
WITH_SPARK = {
    ".": "api errors",
    "cli": "open_lake worker_daemon",
    "lake": "as_of_audit hadoop lake replaced",
    "spark": "data_sources runner session",
    "sql": "by_spark",
    "tables": "schemas spark_types",
}
# They may import every room, and no room imports them: the API's names, `python -m kgroups_spark`, the API.
DOORS = {"__init__", "__main__", "api"}

# To parse a file takes long: without such a line it imports no test, and is written out in full.
MAY_IMPORT_A_TEST = re.compile(r"^\s*(?:from|import) (?:[^\n]*\btest_|tests[\w.]* import \(|\.)", re.MULTILINE)


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py"))


def part_of(path):
    """`records` of kgroups_spark/records/segment.py, `words` of kgroups_spark/words.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def in_rooms():
    return [path for path in modules() if part_of(path) not in DOORS]


@cache
def imported_modules(path):
    """Dotted names that a file imports, also those inside functions."""
    names = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def test_the_drawing_has_every_part_once():
    rooms = [room for line in LINES for room in line]
    assert sorted(rooms) == sorted({part_of(path) for path in in_rooms()})


def test_imports_point_up_the_drawing():
    wrong = {}
    for path in in_rooms():
        number = next(number for number, line in enumerate(LINES) if part_of(path) in line)
        allowed = {part_of(path)}.union(*LINES[:number])
        own = {name.split(".")[1] for name in imported_modules(path) if name.startswith("kgroups_spark.")}
        wrong[str(path.relative_to(PACKAGE))] = own - allowed
    assert {path: rooms for path, rooms in wrong.items() if rooms} == {}


def test_only_files_that_need_spark_import_it():
    """Also inside functions, and for a type checker."""
    named = {f"{folder}/{name}.py".removeprefix("./") for folder, names in WITH_SPARK.items() for name in names.split()}
    importing = [path for path in modules() if {name.split(".")[0] for name in imported_modules(path)} & SPARK]
    assert {str(path.relative_to(PACKAGE)) for path in importing} == named


def module_of(path):
    """`kgroups_spark.records.segment`; a package's __init__ is the package."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def imported_files(path, there):
    """The modules `there` that a file imports, also where only a type checker does, and inside functions."""
    found = {name if name in there else name.rpartition(".")[0] for name in imported_modules(path)}
    return (found & there) - {module_of(path)}


def reached(graph, name):
    """All that a file imports, and what these import."""
    found, new = set(), {name}
    while new:
        new = set().union(*(graph[each] for each in new)) - found
        found |= new
    return found


def test_imports_have_no_cycles():
    """Also where an import is for a type checker alone."""
    files = {module_of(path): path for path in modules()}
    graph = {name: imported_files(path, set(files)) for name, path in files.items()}
    assert {name for name in graph if name in reached(graph, name)} == set()


def test_nothing_is_imported_from_a_test():
    """Helpers live in modules of their own: importing a test file collects its fixtures, and runs it twice."""
    files = [path for name in ("tests", "docs", "benchmarks", "jobs") for path in (PACKAGE.parent / name).rglob("*.py")]
    suspects = [path for path in files if MAY_IMPORT_A_TEST.search(path.read_text())]
    imported = {(path.name, name) for path in suspects for name in imported_modules(path)}
    assert [each for each in imported if re.match(r"tests\.(?:\w+\.)*test_", each[1])] == []


def test_the_check_sees_imports_inside_functions(tmp_path):
    path = tmp_path / "late.py"
    path.write_text("def late():\n    from pyspark.sql import functions\n    import delta.tables\n")
    assert imported_modules(path) == {"pyspark.sql.functions", "delta.tables"}
