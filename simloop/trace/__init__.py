"""The complete record of a run: its entries, its file format, its text timeline."""
