"""Scenarios as files: the format, its reader, the catalog and the recorder."""
