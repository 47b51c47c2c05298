"""The transports of HTTP clients, answered by the endpoint."""
