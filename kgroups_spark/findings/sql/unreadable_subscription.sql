-- warning by group_members (subscribed_topics is null and uses_classic_protocol == true): a member's subscription cannot be read: nothing of the group expires
-- of a group the first by member_id, log_offset
-- The subscription of member {member_id} (client {client_id}) of {group_id}[ (and {others:counted other member})] cannot be
-- parsed. So the coordinator does not know the group's topics, and none of its offsets expire, not even those of topics
-- that are no longer read. Find out which client library wrote it, and update that

-- In Stable classic groups of protocol type consumer (T15).
SELECT offsets_partition, group_id, member_id, coalesce(client_id, 'None') AS client_id, members.log_offset,
  state_since AS since
FROM group_members AS members JOIN groups USING (offsets_partition, group_id)
WHERE subscribed_topics IS NULL AND uses_classic_protocol AND group_type = 'classic' AND protocol_type = 'consumer'
  AND state = 'Stable'
