"""The transaction coordinator: what the records of `__transaction_state` say of transactional ids."""
