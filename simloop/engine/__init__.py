"""The built-in agent: drives a loop machine in a world."""
