"""The part of the log that an audit reads: where to resume, and whether it is still the same log."""
