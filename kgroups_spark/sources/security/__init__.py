"""TLS and SASL as Kafka's clients are told of them, for Python: PEM stores, JAAS lines, OAuth tokens."""
