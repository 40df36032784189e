"""The part of the log that an audit reads: where it goes on, and whether the log is the one that we know."""
