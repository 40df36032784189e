"""The stored history of a lake: replayed again, reduced, decoded again."""
