-- Classic groups by whether consumers of KIP-848 can join them (kgroups migration shows each)
-- converts Can move; reason Why not online; groups Groups :count; first_of_them- The first

SELECT converts, reason, count(*) AS groups, min(group_id) AS first_of_them
FROM migration
GROUP BY converts, reason
ORDER BY converts DESC, reason
