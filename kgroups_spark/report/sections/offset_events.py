"""Offsets that were rewound or skipped ahead, and offsets and groups that were removed."""

from __future__ import annotations

from kgroups_spark.report.parts import BarsOf, Part, TableOf
from kgroups_spark.report.plots import AMBER, BLUE, GREEN, GREY, PURPLE, RED
from kgroups_spark.report.sections.shared import DAYS
from kgroups_spark.report.words import MOVES

moves_section = Part(
    "moves",
    "Offsets rewound or skipped ahead",
    "offset_moves",
    "No committed offset was rewound or skipped ahead in the log.",
    [
        "The log does not record who committed. If a group has members at other times, a lower offset committed while "
        "it has none is most likely an admin reset. If its consumers assign themselves, the log cannot tell."
    ],
    [
        BarsOf(
            "moves_by_day",
            "events_by_day",
            f"Partitions whose offset moved, by day, in the {DAYS} days before the audit",
            "event",
            dict(zip(MOVES, (RED, AMBER, PURPLE), strict=True)),
            "events",
            "partition",
            lambda row: row["event"] in MOVES,
        ),
        TableOf(
            "offset_moves",
            "Moves, the newest first",
            "event_timestamp When (UTC) :time; group_id Group; topic Topic; event What; cause How; "
            "partitions- Partitions :count; read_again Read again :count; skipped Never read :count",
        ),
    ],
)
removals_section = Part(
    "removals",
    "Offsets and groups that were removed",
    "removals",
    "No offset and no group was removed in the log.",
    ["{removals_offsets:counted offset} and {removals_is_group_removed:counted group} were removed in the log."],
    [
        BarsOf(
            "removals_by_day",
            "events_by_day",
            f"Offsets that were removed, by day, in the {DAYS} days before the audit",
            "cause",
            {"expired": BLUE, "probably_expired": PURPLE, "group_deleted": RED, "offset_deleted": AMBER}
            | {"topic_deleted": GREEN, "unknown": GREY},
            "events",
            "offset",
            lambda row: row["event"] == "offset_removed",
        ),
        TableOf(
            "removals",
            "Removals, the newest first",
            "event_timestamp When (UTC) :time; group_id Group; cause Cause; offsets Offsets :count; "
            "topics- Topics :count; is_group_removed- Group removed, too",
        ),
    ],
)
