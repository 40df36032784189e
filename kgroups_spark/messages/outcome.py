"""Outcomes of decoding a record that cannot be used. The set of reasons is closed."""

from __future__ import annotations

from dataclasses import dataclass

REASONS = ("unknown_record_type", "unknown_value_version", "truncated", "empty_value", "null_key")


@dataclass(frozen=True)
class Undecodable:
    """A record that cannot be used, and the fields of it that could be read (else None)."""

    reason: str  # one of REASONS
    detail: str  # one sentence that a person can act on
    record_type: int | None = None
    record_name: str | None = None
    group_id: str | None = None
    member_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    value_version: int | None = None
    topic_id: str | None = None
    transactional_id: str | None = None
