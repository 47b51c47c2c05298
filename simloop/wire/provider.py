"""The provider of models in a run: how it writes, and clients of it.

No code needs these clients, because a client that the program makes itself is answered in the same
way (clients/interception.py). The wire formats are loaded with the first request over HTTP, because
most runs have none.
"""

import importlib
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from simloop.errors import ScenarioError
from simloop.wire.api_keys import KEY
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


_HOST = "https://provider.simulated"


class Clients:
    """Clients of the provider. They are answered in a run, and refused elsewhere."""

    base_url = f"{_HOST}/v1"
    """The address of the provider, as OpenAI's SDK takes it; any other address works too."""

    def openai(self, *, sync: bool = False, **options: Any) -> Any:
        """Return an `openai.AsyncOpenAI`, or with `sync` an `openai.OpenAI`.

        `options` are its further arguments. Raises ScenarioError without the package `openai`.
        """
        return _client("openai", "OpenAI", self.base_url, options, sync=sync)

    def anthropic(self, *, sync: bool = False, **options: Any) -> Any:
        """Return an `anthropic.AsyncAnthropic`, or with `sync` an `anthropic.Anthropic`.

        `options` are its further arguments. Raises ScenarioError without the package `anthropic`.
        """
        return _client("anthropic", "Anthropic", _HOST, options, sync=sync)

    def transport(self, module: str = "httpx") -> Any:
        """Return a transport of `httpx` or `httpx2`, as `AsyncClient(transport=...)` takes it.

        Raises ScenarioError for another package, or without that package.
        """
        if module not in ("httpx", "httpx2"):
            hint = "the choices are httpx and httpx2; clients of other packages need no transport"
            raise ScenarioError(f"there is no transport for `{module}`", key="module", hint=hint)
        package = _package(module)
        from simloop.wire.clients.httpx import make_transport  # noqa: PLC0415 - few need it

        return make_transport(package)


def _client(package: str, name: str, url: str, options: Mapping[str, Any], *, sync: bool) -> Any:
    made = getattr(_package(package), name if sync else f"Async{name}")
    return made(**{"api_key": KEY, "base_url": url, **options})


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ScenarioError(
            f"this needs the package {name}", key=name, hint=f"pip install {name}"
        ) from error
