"""The record of a run: its entries, their words, and the file that holds them."""

TRACES = "test-results"
"""The folder in which pytest keeps the traces of tests: a name that costs no import."""
