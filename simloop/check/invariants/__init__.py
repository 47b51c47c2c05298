"""The invariants: properties that every run must have, each a small function over a trace."""
