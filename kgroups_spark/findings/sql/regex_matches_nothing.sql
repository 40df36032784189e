-- notice by group_members (subscribed_regex is not null): a subscribed regular expression that matches no topic
--
-- {members:counted member} of {group_id} {members:subscribes|subscribe} to {expressions:some}, which matches no topic:
-- nothing is read. The expression is RE2's and must match the whole name, and topics that the member may not describe are
-- left out; check both

-- It was resolved (record type 16). One that is not resolved yet is not reported.
SELECT offsets_partition, group_id, min(member_id) AS member_id, max(groups.log_offset) AS log_offset,
  count(*) AS members, list(subscribed_regex) AS expressions
FROM group_members AS members JOIN groups USING (offsets_partition, group_id)
WHERE len(resolved_regex_topics[subscribed_regex]) = 0
GROUP BY offsets_partition, group_id
