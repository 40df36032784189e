"""The transaction coordinator: the state of transactional ids, from the records of `__transaction_state`."""
