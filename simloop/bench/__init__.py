"""Benchmarks of the code that a loop calls: the cost of hooks in real time."""
