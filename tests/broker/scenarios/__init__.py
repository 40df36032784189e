"""Real clients work with a coordinator, in steps. After each step the broker is asked and its log is audited.

A scenario is a generator. The code before a `yield` runs before that night's audit; the broker must then report what is
yielded. Scenarios of one night run at the same time; each has groups and topics of its own.
"""

from __future__ import annotations

from tests.broker.lab import Scenario
from tests.broker.scenarios.applications import share_groups, streams_application
from tests.broker.scenarios.groups import (
    joins_and_leaves,
    regular_expressions,
    session_timeouts,
    static_consumers,
    static_members,
    upgrade_and_downgrade,
)
from tests.broker.scenarios.offsets import deletions, expiry, resets
from tests.broker.scenarios.transactions import java_transactions, tombstones_while_pending, transactions

EXPIRING: dict[str, Scenario] = {"expiry": expiry}
BOTH: dict[str, Scenario] = {
    "joins and leaves": joins_and_leaves("classic"),
    "static members": static_members,
    "deletions": deletions,
    "resets": resets,
    "transactions": transactions,
    "transactions of the Java client": java_transactions,
    "tombstones while pending": tombstones_while_pending,
    "Streams": streams_application("classic"),
    "session timeouts": session_timeouts("classic"),
}
JAVA_COORDINATOR: dict[str, Scenario] = {
    **BOTH,
    "joins and leaves, KIP-848": joins_and_leaves("consumer"),
    "static members, KIP-848": static_consumers,
    "regular expressions": regular_expressions,
    "upgrade and downgrade": upgrade_and_downgrade,
    "session timeouts, KIP-848": session_timeouts("consumer"),
    "share groups": share_groups,
    "Streams, KIP-1071": streams_application("streams"),
}
