-- warning by group_member_versions (audit_id == $audit_id and group_instance_id is not null): two processes take a static member from each other
--
-- Static member {group_instance_id} of {group_id} was taken over {takeovers:counted time}, {most} of them within
-- 10 minutes[, by clients on {hosts:some}][; and so were {others:counted other static member}]. Each time the coordinator fences
-- the process that had it (FencedInstanceIdException), which dies or starts again: most likely two processes have one
-- group.instance.id, or one dies soon after each start. Give each instance its own name

-- Five within 10 minutes: a new process takes over once at a restart or a deployment.
WITH taken AS (
  SELECT *, count(*) OVER (
    PARTITION BY offsets_partition, group_id, group_instance_id ORDER BY log_timestamp
    RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW
  ) AS within
  FROM (
    SELECT offsets_partition, group_id, group_instance_id, member_id, client_host, log_offset, log_timestamp,
      lag(member_id) OVER (
        PARTITION BY offsets_partition, group_id, group_instance_id ORDER BY log_offset
      ) AS member_before
    FROM group_member_versions
    WHERE audit_id = $audit_id AND group_instance_id IS NOT NULL
  )
  WHERE member_id <> member_before AND log_timestamp IS NOT NULL
)
SELECT offsets_partition, group_id, group_instance_id, arg_max(member_id, log_offset) AS member_id,
  max(log_offset) AS log_offset, min(log_timestamp) AS since, count(*) AS takeovers, max(within) AS most,
  list(client_host) FILTER (WHERE client_host <> '') AS hosts,
  nullif(count(*) OVER (PARTITION BY offsets_partition, group_id) - 1, 0) AS others
FROM taken
GROUP BY offsets_partition, group_id, group_instance_id
HAVING max(within) >= 5
QUALIFY row_number() OVER (PARTITION BY offsets_partition, group_id ORDER BY count(*) DESC, group_instance_id) = 1
