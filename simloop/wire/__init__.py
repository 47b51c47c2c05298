"""Third-party clients at the boundary: wire formats, transports and frameworks."""
