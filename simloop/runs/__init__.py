"""Runs: a scenario and a loop become a result."""
