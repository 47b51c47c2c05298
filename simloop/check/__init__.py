"""Checking runs and machines: replay, determinism, comparison, exploration."""
