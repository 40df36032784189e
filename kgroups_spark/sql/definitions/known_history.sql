-- One row: the time range that history covers (known_as_of)
--
-- begins: Oldest log time in history that another one follows within 30 days (if there is none, the oldest): earlier states are unknown; null: the log has no times
-- reduced_to: Newest log time of records that kgroups maintain --keep has reduced to the last of each key: as of earlier moments functions fail for their partitions; null: it has reduced none
-- incomplete_to: Newest log time when an audit last found offsets missing or damaged among new records, or lost before them: records up to here may be missing; null: no audit has
-- ends: Newest log time at the last audit's read, or the time of that read for a live cluster: later states are unknown; null: the log has no times

-- It reads the whole ledger and all log times, so readers find the row once and make the view from it (sql/views.py).
SELECT max(begins) AS begins, max(reduced_to) AS reduced_to, max(incomplete_to) AS incomplete_to, max(ends) AS ends
FROM known_histories
WHERE log = '__consumer_offsets'
