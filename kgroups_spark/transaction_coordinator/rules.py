"""How each Kafka release loads `__transaction_state`: data only.

Sources: TransactionLog and TransactionStateManager.loadTransactionMetadata of 0.11.0.0, 1.0.2, 1.1.1, 2.0.1, 2.3.1,
2.4.1, 2.8.2, 3.0.2 to 3.9.0, 4.0.2, 4.1.2, 4.2.1, 4.3.1, 4.4.0. A load that fails ends at that record, and the
coordinator serves the ids that it had read until then ("Error loading transactions from transaction log" in the
broker's log).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.durations import DAY_MS

# transactional.id.expiration.ms, its default in every release.
TRANSACTIONAL_ID_EXPIRATION_MS = 7 * DAY_MS
# transaction.max.timeout.ms, its default in every release, and kafka-transactions find-hanging's.
MAX_TRANSACTION_TIMEOUT_MS = 900_000


@dataclass(frozen=True)
class TransactionRules:
    """The versions that one release reads, and the records that end its load."""

    newest_value_version: int = 1
    skips_unknown_types: bool = True  # KIP-915
    skips_unknown_value_versions: bool = True
    # Whether it reads the tags of version 1. Before KIP-890 they were unknown.
    reads_tags: bool = True

    def fails_at(self, reason: str) -> bool:
        """Whether its load ends at a record that cannot be decoded for that reason (messages/outcome.py)."""
        if reason == "unknown_record_type":
            return not self.skips_unknown_types
        return reason != "unknown_value_version" or not self.skips_unknown_value_versions


_V4_3 = TransactionRules()
_V4_0 = replace(_V4_3, skips_unknown_value_versions=False)
_V3_4_1 = replace(_V4_0, reads_tags=False)
_V0_11 = replace(_V3_4_1, newest_value_version=0, skips_unknown_types=False)
# The first version with these rules, newest first.
_SINCE = (((4, 3), _V4_3), ((4, 0), _V4_0), ((3, 4, 1), _V3_4_1), ((0, 11), _V0_11))


def transaction_rules(release: Release) -> TransactionRules | None:
    """The rules of a release. None: it has no transactions (before 0.11)."""
    return next((rules for first, rules in _SINCE if release.version >= first), None)
