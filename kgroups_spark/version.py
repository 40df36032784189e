"""The version of this package. pyproject.toml reads it here, and each audit writes it into its row of the ledger."""

__version__ = "0.1.0"
