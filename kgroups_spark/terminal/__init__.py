"""The terminal: tables, styles, progress, prompts and help."""
