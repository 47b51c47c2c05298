"""The screens of the replayer: each is one file, and leaves the behaviour to the session."""
