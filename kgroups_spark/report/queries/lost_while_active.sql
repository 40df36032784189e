-- Offsets that expired while their group had members, the newest first
-- removed_at When (UTC) :time; group_id Group; topic Topic; offsets Offsets :count; state State; members Members
-- :count

SELECT removed_at, group_id, topic, count(*) AS offsets, state, max(member_count) AS members
FROM lost_while_active
GROUP BY removed_at, group_id, topic, state
ORDER BY removed_at DESC NULLS LAST, group_id, topic
