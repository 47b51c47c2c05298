"""Recordings of other programs, read as scenarios: one reader for each format."""
