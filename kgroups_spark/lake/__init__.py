"""The place of the tables: commits, claims, the ledger, layouts."""
