"""The two stages of an audit as Spark runs them."""
