"""Where the tables lie: commits, claims, the ledger, layouts."""
