"""The one clock of a simulation, and its event loop: see virtual time in docs/architecture.md."""
