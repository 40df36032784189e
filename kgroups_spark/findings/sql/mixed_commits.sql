-- notice: one partition is committed both in transactions and outside them
--
-- {topic}-{partition} of {group_id} was committed {transactional_commits:counted time} in transactions and
-- {plain_commits:counted time} outside them[, and so were {others:counted other partition}]. The later record in the log
-- wins, even over a transaction that commits afterwards: exactly-once processing may process records twice. Most likely a
-- consumer commits as well as the producer: set its enable.auto.commit=false, or find the second program with this
-- group.id

SELECT *, nullif(partitions - 1, 0) AS others FROM mixed_commits
