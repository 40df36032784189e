import re
from datetime import UTC, datetime, timedelta

import pytest

from kgroups_spark.cli.demo import Overview, overview_lines, program_name, why
from kgroups_spark.cli.output import show
from kgroups_spark.cli.text import OWN_MARKS, Style

AS_OF = datetime(2026, 11, 16, 6, 41, 36, tzinfo=UTC)
HOUR = timedelta(hours=1)
PLAIN = Style(False)

AUDIT = {
    "audit_id": 3,
    "as_of": AS_OF,
    "retention_ms": 604_800_000,
    "retention_source": "default",
    "release_version": "4.3",
    "newest_log_timestamp": AS_OF,
    "partitions": [{"offsets_partition": 0, "records": 35_230, "lost_from": None, "lost_to": None}],
    "quarantined": {},
    "notes": [],
}
STABLE = {"group_id": "orders", "group_type": "consumer", "state": "Stable", "is_misplaced": False, "member_count": 1}
EMPTY = {"group_id": "exports", "group_type": "classic", "state": "Empty", "is_misplaced": False, "member_count": 0}
EXPIRES = EMPTY | {
    "offsets": 1,
    "reason": "within_retention",
    "base": "current_state_timestamp",
    "base_timestamp": AS_OF - 144 * HOUR,
    "first_expires_at": AS_OF + 24 * HOUR,
    "last_expires_at": AS_OF + 24 * HOUR,
}


def overview(**facts):
    known = {"audit": AUDIT, "groups": [STABLE, EMPTY], "expiring": [EXPIRES], "offset_count": 2, "pending": []}
    known |= {"more_if_empty": 1, "last_if_empty": AS_OF + 168 * HOUR, "moves": [], "findings": []}
    return Overview(oldest_log_timestamp=AS_OF - 504 * HOUR, **known | facts)


def screen(width=None, style=PLAIN, **facts):
    return overview_lines(overview(**facts), program="kgroups", lake="./lake", width=width, style=style)


def test_the_screen_shows_groups_expiry_transactions_findings_and_what_to_type():
    assert screen() == [
        "",
        "__consumer_offsets: 2 groups, 2 committed offsets, 2026-10-26 06:41 to 2026-11-16 06:41 UTC",
        "audit 3: this audit read 35,230 records; judged as of 2026-11-16 06:41:36 UTC, retention 7d (default), "
        "rules of Kafka 4.3",
        "",
        "Groups by type and state",
        "  TYPE      EMPTY  STABLE  TOTAL",
        "  classic       1       -      1",
        "  consumer      -       1      1",
        "",
        "Committed offsets that expire next, if things stay as they are",
        "  GROUP    TYPE     STATE  #OFFSETS  EXPIRES-AT (UTC)     IN  WHY",
        "  exports  classic  Empty         1  2026-11-17 06:41:36  1d  Empty since 2026-11-10 06:41, retention 7d",
        "1 more offset would expire by 2026-11-23 06:41:36 if every group became Empty now",
        "",
        "No offset is pending in an open transaction",
        "",
        "No findings, and every record could be used",
        "",
        "Next",
        "  kgroups report --lake ./lake --output report.html          # all of it with plots, to open in a browser",
        "  kgroups expiring --lake ./lake --if-empty --retention 3d   # what if?",
        "  kgroups groups --lake ./lake --as-of 2026-11-09T06:41      # the groups a week earlier",
        "  kgroups findings --lake ./lake                             # what is odd, why it matters, what to do",
        "  kgroups pending --lake ./lake --hanging                    # and how to end what hangs",
    ]


def test_no_line_of_the_screen_is_wider_than_a_terminal_of_80_columns():
    lines = screen(80, audit=AUDIT | {"notes": ["partition 7 is missing: " + "no folder has it, " * 4]})
    assert [line for line in lines if len(line) > 80] == []
    report = lines.index("  kgroups report --lake ./lake --output report.html")
    assert lines[report + 1] == "      # all of it with plots, to open in a browser"


def test_a_group_in_two_offsets_partitions_counts_once():
    lines = screen(groups=[STABLE, STABLE | {"state": "Empty"}, EMPTY])
    assert lines[1].startswith("__consumer_offsets: 2 groups, ")
    assert "  consumer      1       1      1" in lines


FINDING = {"severity": "notice", "finding": "mixed_commits", "group_id": "orders", "since": None}


def test_findings_are_listed_with_quarantine_lost_offsets_and_notes():
    lost = AUDIT["partitions"][0] | {"lost_from": 10, "lost_to": 20}
    audit = AUDIT | {"quarantined": {"truncated": 1}, "notes": ["partition 7 is missing"], "partitions": [lost]}
    worse = FINDING | {"severity": "error", "finding": "load_would_fail", "group_id": None, "since": AS_OF}
    lines = screen(audit=audit, findings=[FINDING, worse])
    start = lines.index("Findings and notes")
    others = [
        "  1 record in quarantine: truncated",
        "  partition 0: offsets 10 to 19 were compacted away before they could be read",
        "  partition 7 is missing",
    ]
    assert lines[start + 1 : lines.index("", start)] == [
        "  SEVERITY  FINDING          GROUP   SINCE (UTC)",
        "  error     load_would_fail  -       2026-11-16 06:41:36",
        "  notice    mixed_commits    orders  -",
        *others,
    ]
    assert screen(audit=audit)[start : start + 4] == ["Findings and notes", *others]


MOVE = {
    "group_id": "orders",
    "topic": "clicks",
    "event": "offset_rewound",
    "cause": "no_members",
    "event_timestamp": AS_OF - HOUR,
    "partitions": 2,
    "read_again": 910,
    "skipped": None,
}


def test_moved_offsets_are_a_table_and_the_last_ones_history_is_suggested():
    late = {"group_id": "too late", "event": "offset_restarted", "cause": "unknown", "read_again": None, "skipped": 10}
    lines = screen(moves=[MOVE | late, MOVE])
    start = lines.index("Committed offsets that were rewound or skipped ahead, the newest first")
    heading, first, second, nothing = lines[start + 1 : start + 5]
    assert re.split(r"  +", heading.strip())[3:] == ["#PARTITIONS", "READ-AGAIN", "NEVER-READ", "WHAT", "HOW"]
    assert re.split(r"  +", first.strip()) == [
        "too late", "clicks", "2026-11-16 05:41:36", "2", "-", "10", "offset committed after its removal", "unknown"
    ]  # fmt: skip
    assert re.split(r"  +", second.strip()) == [
        "orders", "clicks", "2026-11-16 05:41:36", "2", "910", "-", "rewound",
        "no members: an admin reset, most likely",
    ]  # fmt: skip
    assert not nothing
    assert any(line.startswith("  kgroups history --lake ./lake --group 'too late' ") for line in lines)


def pending(group, **facts):
    known = {"producer_id": 7, "transactional_id": None, "open_since": AS_OF - HOUR, "age": "1h", "is_hanging": True}
    return known | {"group_id": group, "topic": "orders", "partition": 0, "committed_offset": 42} | facts


def in_transactions(lines):
    return lines[lines.index("Offsets in open transactions") + 1 :]


def test_offsets_in_open_transactions_are_a_table():
    assert in_transactions(screen(pending=[pending("billing")]))[:2] == [
        "  GROUP    TOPIC   PARTITION  PENDING-OFFSET  OPEN-SINCE (UTC)     AGE  HANGING  PRODUCER-ID",
        "  billing  orders          0              42  2026-11-16 05:41:36  1h   yes                7",
    ]


def test_known_transactional_ids_are_the_first_column():
    heading, *rows = in_transactions(screen(pending=[pending("a", transactional_id="ledger-1"), pending("b")]))[:3]
    assert re.split(r"  +", heading.strip())[:2] == ["TRANSACTIONAL-ID", "GROUP"]
    assert [row.split()[:2] for row in rows] == [["ledger-1", "a"], ["-", "b"]]


@pytest.mark.parametrize(("count", "is_one_line"), [(10, True), (9, False)])
def test_groups_made_for_one_run_each_are_one_line_of_open_transactions(count, is_one_line):
    names = [f"report-{20_000 + number}" for number in range(count)]
    rows = [pending(name, partition=number, is_hanging=not number) for number, name in enumerate(names)]
    groups = [EMPTY | {"group_id": name} for name in names]
    lines = in_transactions(screen(pending=rows, groups=groups))[1:9]
    if is_one_line:  # no value where they differ, but for the longest open one's
        shown = ["report-<number> (10 groups)", "orders", "-", "42", "2026-11-16 05:41:36", "1h", "yes", "7"]
        assert re.split(r"  +", lines[0].strip()) == shown
        assert not lines[1]
    else:
        assert [line.split()[0] for line in lines] == names[:8]


def test_only_the_first_rows_of_a_long_list_are_shown():
    expiring = [EXPIRES | {"group_id": f"group-{number}"} for number in range(11)]
    assert "  and 3 more" in screen(expiring=expiring)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_narrow_screen_shows_every_name_and_time_in_full(width):
    name = "a-name-of-some-length" * 2
    lines = screen(width=width, expiring=[EXPIRES | {"group_id": name}], moves=[MOVE | {"group_id": name}])
    start = lines.index("Committed offsets that expire next, if things stay as they are")
    shown = lines[start : lines.index("No offset is pending in an open transaction")]
    text = "\n".join(shown)
    assert text.count(name) == 2
    assert "2026-11-17 06:41:36" in text
    assert "2026-11-16 05:41:36" in text
    assert max(len(line) for line in shown if line.startswith("  ")) <= width


def test_a_name_cannot_forge_terminal_formatting(capsys):
    for style in (PLAIN, Style(True)):
        audit = AUDIT | {"notes": ["group \x1b[2J\x1b[1m\r is new"]}
        for line in screen(style=style, audit=audit, moves=[MOVE | {"group_id": "\x9bm"}]):
            show(line)
        out = capsys.readouterr().out
        assert "\\x1b[2J\\x1b[1m\\r is new" in out
        assert "--group $'\\xc2\\x9bm'" in out
        assert OWN_MARKS.sub("", out).replace("\n", "").isprintable()


def test_colour_marks_and_never_carries_meaning():
    marked = "\n".join(screen(style=Style(True)))
    assert marked.count("\x1b[1m") > 3
    assert marked.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") == "\n".join(screen())


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_is_off_where_it_is_not_wanted(variable, value, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Style.of(Terminal()).is_on
    monkeypatch.setenv(variable, value)
    assert not Style.of(Terminal()).is_on


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"base": "expire_timestamp"}, "the commit itself set this time"),
        ({"base": "commit_timestamp"}, "committed 2026-11-10 06:41, retention 7d"),
        (
            {"base": "commit_timestamp", "state": "Stable"},
            "not subscribed to; committed 2026-11-10 06:41, retention 7d",
        ),
    ],
    ids=["explicit", "empty", "unsubscribed"],
)
def test_the_reason_is_reported_in_words(row, words):
    assert why(EXPIRES | row, 604_800_000) == words


def test_suggested_commands_name_a_program_that_the_shell_finds(tmp_path, monkeypatch):
    command = tmp_path / "venv" / "bin" / "kgroups"
    command.parent.mkdir(parents=True)
    command.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert program_name(str(command)) == "venv/bin/kgroups"
    assert program_name("../elsewhere/kgroups") == "../elsewhere/kgroups"
    assert program_name("/usr/lib/spark/jobs/nightly_audit.py") == "kgroups"
    monkeypatch.setenv("PATH", str(command.parent))
    assert program_name(str(command)) == "kgroups"
