"""One loop design per file, each a pure machine."""
