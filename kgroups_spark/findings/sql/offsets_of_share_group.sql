-- warning by groups (group_type == "share"): a share group has committed offsets
--
-- Share group {group_id} has {offsets:counted committed offset}. Share groups keep their start offsets in
-- __share_group_state and do not read these offsets. No clean-up removes them. Brokers reject such commits: these were
-- committed before it was a share group, or a client wrote to the topic directly. Use another name for one of the two
-- groups

SELECT * FROM _offsets_of_share_groups WHERE kept_offsets IS NULL
