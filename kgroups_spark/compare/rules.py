"""The rules in which releases differ: a sentence for each field of `Release` and `ExpiryRules` that is a rule."""

from __future__ import annotations

from dataclasses import fields, replace

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.durations import format_duration
from kgroups_spark.expiry.clean_up import CleanUp

# Each sentence describes both sides of the rule. T numbers: docs/coordinator-semantics.md.
RULES: dict[str, str] = {
    "record_types": "records of types that a release does not know are skipped (KIP-915)",
    "skips_unknown_types": "before 3.4.1 a record of an unknown type ends the load (KIP-915)",
    "unreplayable_types": "4.0 reads records of type 15 (share groups) and then fails at them",
    "legacy_offset_commit_version": "which value versions are read under a key of type 0 (since 4.1 version 0 alone)",
    "offset_commit_version": "which versions of offset commits are read (version 4 since 3.4.1, KIP-915)",
    "group_metadata_version": "which versions of GroupMetadata are read",
    "transactional_by": "what is transactional: in Java whatever has a producer id, in Scala by the batch (T28)",
    "tombstone_removes_pending": "what a tombstone removes of open transactions: in Java since 3.8 all that is pending "
    "for the partition, in 3.7 nothing, in Scala only its own transaction's (T21, T22)",
    "commit_needs_newer_record": "in 3.7's Java coordinator a COMMIT overwrites newer offsets (T19, T20)",
    "unknown_marker_ends_transaction": "in Scala a control record of an unknown type ends a transaction",
    "open_transactions_by": "which groups count as in a transaction (KAFKA-19164, fixed in 4.0.1)",
    "simple_groups_follow_offsets": "a group without metadata exists in Scala as long as it has offsets, in Java from "
    "its first offset to a tombstone of the group (T29, T30)",
    "empty_group_keeps_protocol_type": "up to 1.0.0 an Empty group forgets its protocol type (KAFKA-6287)",
    "reads_state_timestamp_of_version_3": "2.3 to 2.6.0 forget since when a group of version 3 has its state "
    "(KAFKA-10401)",
    "repeated_member_id_fails": "a snapshot with a repeated member id may end a load since 2.1",
    "repeated_instance_id_fails": "a snapshot with a repeated group.instance.id ends a load since 3.0",
    "damaged_subscription_fails": "a member's subscription that cannot be read may end a load from 2.7 to 4.3",
    "replaces_group_before_parsing": "Java puts a group in place before it reads members' subscriptions",
    "unset_rebalance_timeout_is_session_timeout": "a rebalance timeout of -1 becomes the session timeout: in Java "
    "always, in Scala in values of version 0 (T8)",
    "fresh_epoch": "epochs that are in no record are 1 since 4.3, 0 before (T38)",
    "simple_group_becomes": "which records turn a simple group into theirs: consumer groups' since 4.0 (KAFKA-17306), "
    "streams groups' since 4.2.1 (KAFKA-20254)",
    "creates_group": "which records create a group that does not exist (KAFKA-17306)",
    "creates_member": "which records create a member that does not exist",
    "needs_group": "which records fail where their group is missing (KAFKA-17306)",
    "strict_partition_epochs": "two owners of a partition end a load before 4.0.2 and 4.1.2 (KAFKA-19862)",
    "checks_partition_epochs": "two owners of a partition end a load since 3.8",
    "checks_assignment_metadata": "4.3 refuses assignment epochs below -1 and negative timestamps",
    "has_metadata_hash": "a hash of the topics' metadata is in groups' records since 4.1",
    "share_member_keeps_state": "members of share groups keep their state since 4.2",
    "unset_topology_epoch": "a streams group whose metadata record is missing has validated no topology since "
    "4.4, and that of epoch 0 before",
    "streams_ready_by_validated_epoch": "4.1 calls a streams group NotReady until it has computed its topology (T40)",
}
# Fields that no compared value depends on.
WITHOUT_TRACE = {"name", "coordinator", "layout", "has_topic_ids", "has_assignment_epochs", "has_task_epochs"}


def tried_releases(a: Release, b: Release) -> dict[str, Release]:
    """Release A with one rule of B, by the rule's field. This rule causes every difference between that and A."""
    differing = [f.name for f in fields(a) if getattr(a, f.name) != getattr(b, f.name) and f.name not in WITHOUT_TRACE]
    return {name: replace(a, **{name: getattr(b, name)}) for name in differing}


# The same for expiry_rules.py.
EXPIRY_RULES: dict[str, str] = {
    "depends_on_group": "since 2.1 members and the group's state come before the offset's own time (KIP-211)",
    "subscription_states": "in which states topics that nobody subscribes to expire (KIP-496, KAFKA-13636)",
    "topology_unread_states": "4.1 does not read the topology of a streams group that is NotReady",
    "pending_transaction_spares": "a pending offset spares the committed one of its partition in Java since 3.8",
    "honours_expire_timestamp": "a time that the client gave counts since 0.9",
    "v1_without_expire_timestamp_expired": "2.1 takes values of version 1 without an expiry time for expired "
    "(KAFKA-8069)",
    "is_strict": "before 2.1 an offset outlived the very millisecond at which it was due",
    "open_transaction": "whether open transactions keep a group that would be deleted (KAFKA-19163)",
    "share_offsets_end_clean_up": "in 4.0 and 4.4 committed offsets of a share group end the clean-up of their whole "
    "offsets partition",
    "keeps_described_streams_groups": "4.4 keeps a streams group as long as a plugin holds its topology description",
    "deletes_share_groups": "share groups that are empty are kept since 4.1 (KAFKA-19016)",
}
# Fields that no compared decision depends on, or with a name of its own here: RETENTION.
EXPIRY_WITHOUT_TRACE = {"default_retention_ms", "tombstone_at_generation_0"}
RETENTION = "retention"


def tried_clean_ups(a: CleanUp, b: CleanUp) -> dict[str, CleanUp]:
    """Clean-up A with one rule of B, by the rule's field; with B's retention, by RETENTION."""
    tried = {
        name: replace(a, tried=replace(a.rules, **{name: getattr(b.rules, name)}))
        for name in EXPIRY_RULES
        if getattr(a.rules, name) != getattr(b.rules, name)
    }
    if a.retention_ms != b.retention_ms:
        tried[RETENTION] = replace(a, retention_ms=b.retention_ms)
    return tried


def sentences(a: CleanUp, b: CleanUp) -> dict[str, str]:
    """The sentence of each rule, by its name."""
    retention = f"retention is {format_duration(a.retention_ms)} and {format_duration(b.retention_ms)}"
    return {**RULES, **EXPIRY_RULES, RETENTION: retention}
