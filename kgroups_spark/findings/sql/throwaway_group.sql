-- notice by throwaway_groups: many empty groups whose names differ only by a UUID or a number
-- of all partitions
-- {groups:counted group} without members are named {pattern}, each with {generated}: most likely each run of an application
-- creates a new one. They burden their coordinators and the log until their offsets expire, and no run finds the offsets of
-- the previous one. Give the application a fixed group.id, or let it commit nothing (enable.auto.commit=false)

SELECT *, CASE WHEN pattern LIKE '%<uuid>%' THEN 'a random UUID' ELSE 'its own number' END AS generated FROM throwaway_groups
