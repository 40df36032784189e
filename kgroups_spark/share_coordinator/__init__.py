"""The share coordinator (KIP-932): the state of share partitions, from the records of `__share_group_state`."""
