"""`__share_group_state` and `__transaction_state`: planned, decoded and replayed."""
