"""The differences of `kgroups compare` on a screen: a table for each cause, its consequences at the end of each row."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kgroups_spark.audit.differences import OTHER_GROUP, WITHOUT_LOAD, Difference, with_causes
from kgroups_spark.cli.compare import difference_lines, screen_of
from kgroups_spark.cli.output import write_rows
from kgroups_spark.cli.text import Style

KIP_915 = "3.9 does not know the records of consumer groups and skips them (KIP-915)"
LATER = "2026-11-23T05:34:14.142Z"


def printed(*differences: Difference, width: int | None = None) -> list[str]:
    return list(difference_lines(with_causes(differences), ("4.4", "3.9"), width, Style(False)))


def skipped(group_id: str) -> Difference:
    values = "consumer, Stable, members: 2", "classic, Empty, members: 0"
    return Difference("group", 1, group_id, "group_type", *values, why=KIP_915)


def expiring(group_id: str, partition: int, **more: Any) -> Difference:
    reported = {"what": "expires_at", "value_a": None, "value_b": LATER, "why": OTHER_GROUP} | more
    return Difference("offset_expiry", 1, group_id, topic="t", partition=partition, **reported)


def test_consequences_are_counted_next_to_their_cause() -> None:
    due = {"what": "decision", "value_a": "keep (subscribed)", "value_b": "expire (retention_passed)"}
    deleted = Difference("group_expiry", 1, "b", "decision", "keep (x)", "delete (y)", why=OTHER_GROUP)
    rows = [skipped("a"), skipped("b"), expiring("a", 0), expiring("a", 1), expiring("b", 0, **due), deleted]
    assert printed(*rows, expiring("a", 2, **due)) == [
        KIP_915,
        "  GROUP  WHAT        4.4                           3.9                         FOLLOWS",
        "  a      group_type  consumer, Stable, members: 2  classic, Empty, members: 0  "
        "3 offsets expire at another time, 1 of them at the next check",
        "  b      group_type  consumer, Stable, members: 2  classic, Empty, members: 0  "
        "1 offset expires at the next check; the group is deleted at the next check",
    ]


def test_each_cause_has_a_table_of_its_own() -> None:
    lost = Difference("committed_offset", 1, "g", "committed_offset", "5", None, topic="t", partition=0, why="T28")
    assert printed(skipped("a"), lost)[3:] == [
        "",
        "T28",
        "  GROUP  TOPIC  PARTITION  WHAT              4.4  3.9",
        "  g      t              0  committed_offset  5    -",
    ]


def test_a_consequence_is_counted_at_the_rule_that_makes_it() -> None:
    """The group differs twice: its expiry follows from the second rule alone."""
    rows = [Difference("group", 1, "a", what, "1", None, why=why) for what, why in (("epoch", "T1"), ("since", "T2"))]
    assert printed(*rows, expiring("a", 0, why="T2"))[1::4] == [
        "  GROUP  WHAT   4.4  3.9",
        "  GROUP  WHAT   4.4  3.9  FOLLOWS",
    ]
    assert printed(*rows, expiring("a", 0))[1].endswith("FOLLOWS")  # no rule alone: at the first


def test_a_failed_load_is_one_row_for_all_its_groups() -> None:
    load = Difference("load", 3, None, "load", "loads", "fails at log offset 9: x")
    groups = [Difference("group", 3, name, "group", "share, Stable", WITHOUT_LOAD["java"], why="w") for name in "ab"]
    assert printed(load, *groups) == [
        "Partitions of __consumer_offsets that only one release can load",
        "  OFFSETS-PARTITION  WHAT  4.4    3.9                       FOLLOWS",
        "                  3  load  loads  fails at log offset 9: x  2 groups not served",
    ]


def test_no_line_is_wider_than_the_screen() -> None:
    rows = [skipped("order-totals-of-the-warehouse"), *(expiring("order-totals-of-the-warehouse", n) for n in range(3))]
    lines = printed(*rows, width=80)
    assert max(map(len, lines)) <= 80
    assert "3 offsets expire at another time" in " ".join(" ".join(lines).split())


def test_a_release_without_values_stays_on_a_narrow_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """That 4.4 has no value, because nothing expires there, is the difference."""
    row = expiring("order-totals-of-the-warehouse", 0, why="a pending offset spares the committed one")
    assert "4.4" in " ".join(printed(row, width=60))
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    write_rows([row._asdict()], screen_of("4.4", "3.9"), "table", screen)
    assert "4.4" in screen.getvalue()
