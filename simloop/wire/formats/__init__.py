"""The wire formats of model providers: one file for each."""
