"""The widgets of the replayer: each shows rows that are escaped already, and no markup."""
