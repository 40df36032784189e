-- error by groups (group_type == "share"): offsets of a share group break the clean-up: nothing in the partition expires
--
-- Share group {group_id} has {offsets:counted committed offset}. A coordinator of this release throws on these offsets, so
-- clean-up of partition {offsets_partition} of __consumer_offsets stops there: {kept_offsets:counted committed offset} and
-- {kept_groups:counted group} in it never expire. Write tombstones for the share group's offsets, use another name for the
-- share group, or run brokers of 4.1 to 4.3, which skip such groups

SELECT * FROM _offsets_of_share_groups WHERE kept_offsets IS NOT NULL
