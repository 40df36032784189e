"""The findings in a log: the rows of `findings`, from the tables as an audit leaves them and from what it read.

Each finding is reported once for a group (or an offsets partition, a producer, a name pattern), however often it holds
there.
"""
