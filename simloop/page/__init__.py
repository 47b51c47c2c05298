"""The replayer as one HTML page, for a browser and for a CI job that keeps artifacts."""
