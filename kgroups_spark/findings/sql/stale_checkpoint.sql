-- error by hidden: records are not read, because a checkpoint file is older than the log
--
-- {offsets:counted offset} of offsets partition {offsets_partition} were not read, {log_ms:duration} of log time: by
-- replication-offset-checkpoint beside the log they are not committed. A broker writes that file every five seconds, so
-- it is older than the log, and all that is said about this partition is as old. Copy the file again together with the
-- log, or delete it: then everything is read

SELECT * FROM hidden
