"""The bytes of a range of the log -> rows of the history tables."""
