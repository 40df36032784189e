"""Sources of logs: folders of segments, live clusters."""
