"""The provider's side of a run: how it writes, what it keeps, and the endpoint that answers.

The wire formats are loaded with the first request over HTTP, because most runs have none.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from simloop.world.current import current_world
from simloop.world.model_port import ModelPort
from simloop.world.wire_options import WireOptions

if TYPE_CHECKING:
    from simloop.wire.endpoint import Endpoint


class ProviderSide:
    """The provider of models in one conversation. `options` can change at any time.

    With `keep_bodies`, `bodies` has the raw body of each request, by its number.
    """

    def __init__(self, port: ModelPort, options: WireOptions, *, keep_bodies: bool = False) -> None:
        self.port = port
        self.options = options
        self.keep_bodies = keep_bodies
        self.bodies: dict[int, bytes] = {}

    @cached_property
    def endpoint(self) -> "Endpoint":
        """Return the endpoint of the conversation."""
        from simloop.wire.endpoint import Endpoint  # noqa: PLC0415 - see the module docstring

        return Endpoint(self)


def current_endpoint() -> "Endpoint | None":
    """Return the endpoint of the run that the caller belongs to, or None outside of runs."""
    world = current_world()
    side: ProviderSide | None = None if world is None else world.provider
    return None if side is None else side.endpoint
