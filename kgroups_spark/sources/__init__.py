"""Where logs come from: folders of segments, live clusters."""
