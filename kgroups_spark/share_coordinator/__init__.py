"""The share coordinator (KIP-932): what the records of `__share_group_state` say of share partitions."""
