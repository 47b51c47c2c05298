"""The transports of HTTP clients, each answered by the endpoint: one file for each client."""
