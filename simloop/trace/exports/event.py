"""The base of the events of all loops. The views in this folder define the events."""

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """One event. `at_ns` is virtual time from the start of the trace."""

    at_ns: int

    @property
    def type(self) -> str:
        """Return its name for JSON and listeners, such as `tool_call`."""
        return str(type(self).__struct_config__.tag)
