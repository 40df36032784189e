"""Two releases over one history."""
