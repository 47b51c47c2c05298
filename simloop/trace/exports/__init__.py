"""Traces as the events and histories of the programs behind the loops."""
