"""`kgroups compare` prints the lines of compare.txt."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kgroups_spark.audit.comparison import Comparison, Facts, Side
from kgroups_spark.audit.differences import WITHOUT_LOAD, Difference
from kgroups_spark.cli import compare
from kgroups_spark.cli.main import main
from tests.cli.golden import Screen, screen, screens

DAY = 86_400_000


def compared(*differences: Difference, b: str = "3.9", retention_b: int = 7 * DAY, **more: Any) -> Comparison:
    fields: dict[str, Any] = {"audit_id": 1, "as_of_ms": 1_763_275_281_000, "is_reduced": False, "partitions": 50}
    return Comparison(Side("4.3", 7 * DAY), Side(b, retention_b), **(fields | more), differences=[*differences])


LOAD = Difference("load", 3, None, "load", "loads", "fails at ...")
LOAD_OF_4 = Difference("load", 4, None, "load", "fails at ...", "loads")
FAILING = {"unserved_groups": 42, "unserved_offsets": 310, "failing": {17: "log offset 9: b", 3: "log offset 5: a"}}
ONE, BOTH = Facts(failing={3: "log offset 5: a"}), Facts(failing={3: "log offset 5: a", 4: "log offset 7: b"})
FOUND = {
    "nothing differs": compared(b="4.2"),
    "no partition has records": compared(b="4.2", partitions=0),
    "two retentions": compared(retention_b=DAY),
    "3.9 does not load": compared(
        LOAD,
        Difference("group", 3, "orders", "group", "share, Stable", WITHOUT_LOAD["scala"], why="no load"),
        facts=(Facts(), Facts(**FAILING)),
    ),
    "4.0 does not load what may be compacted": compared(
        LOAD, b="4.0", facts=(Facts(), Facts(**FAILING, compacted_perhaps={3}))
    ),
    "neither loads one, one does not load another": compared(LOAD_OF_4, facts=(BOTH, ONE)),
    "neither loads one": compared(facts=(ONE, ONE)),
    "neither loads any": compared(facts=(BOTH, BOTH), partitions=2),
    "skipped record types": compared(
        facts=(Facts(topic_ids=12), Facts(skipped=Counter({3: 2, 8: 1000, 16: 1, 11: 4, 17: 5})))
    ),
    "everything differs": compared(
        Difference("group", 1, "gone", "group", "share, Stable, members: 1", None),
        Difference("group", 1, "new", "group", None, "classic, Empty, members: 0"),
        Difference("group", 1, "other", "group_type", "consumer, Stable, members: 1", "classic, Empty, members: 0"),
        Difference("group", 1, "epochs", "group_epoch", "1", "0"),
        Difference("group", 1, "epochs", "assignment_epoch", "1", "0"),
        Difference("member", 1, "epochs", "member_epoch", "1", "0", "m"),
        Difference("committed_offset", 1, "g", "committed_offset", "5", "6", topic="t", partition=0),
        Difference("pending_offset", 1, "g", "committed_offset", "5", None, None, 7, "t", 0),
        Difference("offset_expiry", 1, "g", "decision", "keep (a)", "expire (b)", topic="t", partition=0),
        Difference("offset_expiry", 1, "g", "expires_at", None, "2026", topic="t", partition=1),
        Difference("group_expiry", 1, "g", "decision", "keep (a)", "delete (b)"),
    ),
    "an offset, and what follows from it": compared(
        Difference("committed_offset", 1, "g", "committed_offset", "5", None, topic="t", partition=0),
        Difference("offset_expiry", 1, "g", "expires_at", None, "2026", None, None, "t", 0, None, "committed_offset"),
        facts=(Facts(names={"orders"}), Facts()),
    ),
}


@pytest.mark.parametrize("wanted", screens("compare"), ids=lambda wanted: f"{wanted.lake}: {wanted.command}")
def test_a_comparison_prints_its_screen(
    wanted: Screen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    monkeypatch.setattr(compare, "existing_lake", lambda arguments: "x")
    monkeypatch.setattr(compare, "_compare", lambda arguments, location: FOUND[wanted.lake])
    code = main([*wanted.command.split(), "--lake", "x", "--release-version", "3.9"])
    wanted.check(screen(code, *capsys.readouterr()), pytestconfig)


def test_rows_have_all_columns() -> None:
    assert set(Difference._fields) == set(compare.COLUMNS)
