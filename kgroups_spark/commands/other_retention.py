"""An audit's decisions on committed offsets, decided again for another retention.

An audit's decision tells what the group and its transactions made of the offset; of these nothing depends on the
retention. So the times are all that is counted again, as kgroups_spark/expiry counts them: tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kgroups_spark.coordinator.expiry_rules import ExpiryRules, expiry_rules
from kgroups_spark.times import LAST_MS, to_datetime, to_epoch_ms

Row = dict[str, Any]

GIVEN_TIME = {True: "expire_timestamp_passed", False: "before_expire_timestamp"}  # by whether it is due
RETENTION = {True: "retention_passed", False: "within_retention"}
WITH_A_TIME = {*GIVEN_TIME.values(), *RETENTION.values()}


def for_retention(decisions: Iterable[Row], *, retention_ms: int, release_version: str) -> list[Row]:
    """The rows of offset_expiry as an audit with that retention would have written them, in their order.

    Each has its offset's commit_timestamp, expire_timestamp and value_version, too, and group_type and state of its
    group (null: there is none). ValueError for a release that is not known.
    """
    rules = expiry_rules(release_version)
    return [_judged(row, retention_ms, rules) for row in decisions]


def _judged(decision: Row, retention_ms: int, rules: ExpiryRules) -> Row:
    now_ms, expire_ms = to_epoch_ms(decision["as_of"]), _expire_ms(decision, rules)
    row = decision | {"retention_ms": retention_ms}
    due_ms = None
    if decision["reason"] in WITH_A_TIME:
        due_ms = to_epoch_ms(decision["base_timestamp"]) + retention_ms if expire_ms is None else expire_ms
        due_ms += rules.is_strict
        is_due = due_ms <= now_ms
        row |= {
            "decision": "expire" if is_due else "keep",
            "reason": (RETENTION if expire_ms is None else GIVEN_TIME)[is_due],
            "expires_at": _moment(due_ms),
        }
    # Whether it has a moment at all depends on the group, the topic and transactions.
    if decision["expires_at_if_empty"] is not None and decision["state"] is not None:
        if due_ms is None or (rules.depends_on_group and decision["state"] != "Empty"):
            waits_from_ms = now_ms if decision["group_type"] == "classic" else _commit_ms(decision)
            due_ms = max(waits_from_ms + retention_ms if expire_ms is None else expire_ms, now_ms)
        row["expires_at_if_empty"] = _moment(due_ms)
    return row


def _expire_ms(committed: Row, rules: ExpiryRules) -> int | None:
    """The time that the client gave, as the release reads it; None: none."""
    if not rules.honours_expire_timestamp:
        return None
    if committed["expire_timestamp"] is not None:
        return to_epoch_ms(committed["expire_timestamp"])
    return -1 if rules.v1_without_expire_timestamp_expired and committed["value_version"] == 1 else None


def _commit_ms(committed: Row) -> int:
    """Kafka's -1: none."""
    moment = committed["commit_timestamp"]
    return -1 if moment is None else to_epoch_ms(moment)


def _moment(time_ms: int) -> Any:
    """As kgroups_spark/expiry/moment.py writes it."""
    return to_datetime(min(time_ms, LAST_MS))
