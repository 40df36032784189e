"""A live cluster: its brokers, their answers, and the logs that they serve."""
