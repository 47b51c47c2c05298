"""The virtual clock: time, tasks, timers and the event loop."""
