"""Checking runs: replay, determinism."""
