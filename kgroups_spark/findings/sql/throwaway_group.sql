-- notice: many empty groups whose names differ only by a generated suffix
--
-- {groups:counted group} without members are named {pattern}: each run creates a new one. They burden their coordinators
-- and the log until their offsets expire, and no run finds the offsets of the previous one. Give the application a fixed
-- group.id, or let it commit nothing (enable.auto.commit=false)

-- Generated parts of names: a UUID; the random number of kafka-console-consumer (ConsoleConsumerOptions.java).
SELECT pattern, min(group_id) AS group_id, count(*) AS groups
FROM (
  SELECT
    group_id,
    regexp_replace(
      group_id,
      '(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|^(console-consumer-)\d{1,5}$',
      '\1*',
      'g'
    ) AS pattern
  FROM groups
  WHERE member_count = 0
)
WHERE pattern <> group_id
GROUP BY pattern
HAVING count(*) >= 10
