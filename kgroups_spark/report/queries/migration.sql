SELECT converts, reason, count(*) AS groups, min(group_id) AS first_of_them
FROM migration
GROUP BY converts, reason
ORDER BY converts DESC, reason
