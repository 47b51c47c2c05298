"""What the events of all loops have in common. What each tells: the views beside this file."""

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """One event. `at_ns` is virtual time from the start of the trace."""

    at_ns: int

    @property
    def type(self) -> str:
        """Its name, as JSON and listeners have it: `tool_call`."""
        return str(type(self).__struct_config__.tag)
