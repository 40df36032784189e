"""TLS and SASL as Kafka's clients are configured, for Python: PEM stores, JAAS lines, OAuth tokens."""
