"""`kgroups maintain`."""
