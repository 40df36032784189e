SELECT
  date_trunc('day', hour) AS day,
  CAST(sum(commits - transactional_commits) AS BIGINT) AS plain_commits,
  CAST(sum(transactional_commits) AS BIGINT) AS transactional_commits
FROM group_traffic
WHERE hour > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND hour <= (SELECT believed_until FROM last_audit)
GROUP BY date_trunc('day', hour)
ORDER BY day
