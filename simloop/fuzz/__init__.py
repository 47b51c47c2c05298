"""The search for failures: generated worlds, goals, coverage, shrinking and campaigns."""
