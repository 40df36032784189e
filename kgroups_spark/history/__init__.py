"""The history that a lake has stored: replayed again, reduced, decoded again."""
