"""The client's properties, as Kafka's own clients read them."""
