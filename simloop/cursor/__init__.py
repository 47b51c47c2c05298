"""The facts at one entry of a trace: terminal, page and text show these and no more."""
