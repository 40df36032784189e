"""The size of records that are reported."""

# message.max.bytes, the default for a whole batch (ServerLogConfigs.MAX_MESSAGE_SIZE_DEFAULT, 1 MiB and its overhead).
MAX_MESSAGE_BYTES = 1_048_588
# Four fifths of it, which a few more members or topics exceed.
NEAR_LIMIT_BYTES = MAX_MESSAGE_BYTES * 4 // 5
# offsets.retention.check.interval.ms, 10 minutes by default: expiry is no more exact than this.
TIME_OFF_MS = 600_000
