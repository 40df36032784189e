"""Share partitions, and the records that are near their delivery limit."""

from __future__ import annotations

from kgroups_spark.report.parts import Part, TableOf
from kgroups_spark.report.sections.shared import GROUPS_BYTES

share_groups_section = Part(
    "share-groups",
    "Share groups",
    "share_partitions",
    "No share partition is known: there is none, or __share_group_state was not read.",
    [
        "{share_partitions_groups:counted share group} with {share_partitions:counted share partition}. "
        "[{share_partitions_lag:counted record} of {share_partitions_lag_known:counted partition} are still to be "
        "processed.][{share_partitions_no_lag}Their lag is unknown: no audit of a live cluster saw the topics' ends, "
        "or the brokers are older than 4.2.]",
        "[{share_near_limit_records:counted record} can be delivered once more at most. If that fails they are "
        "archived, and no consumer receives them again.]",
    ],
    [
        TableOf(
            "share_near_limit",
            "Records near their delivery limit",
            "group_id Group; topic Topic; partition Partition :count; first_offset From offset :count; "
            "last_offset To offset :count; delivery_count Delivered :count; attempts_left Attempts left :count",
        ),
        TableOf(
            "share_partitions",
            "Share partitions, the longest lag first",
            "group_id Group; topic Topic; partition Partition :count; init_state- State; "
            "start_offset Start offset :count; lag Lag :count; archived- Archived :count; "
            "log_timestamp- Last stored (UTC) :time",
            GROUPS_BYTES,
        ),
    ],
)
