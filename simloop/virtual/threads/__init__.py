"""Simulated threads: they run one at a time on the virtual clock."""
