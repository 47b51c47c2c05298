"""Virtual time for any coroutine."""
