"""The folder in which pytest keeps the traces of tests.

A module of its own, because the pytest plugin names the folder in its help and may import nothing
heavy for that.
"""

TRACES = "test-results"
