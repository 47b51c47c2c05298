"""The SDKs and HTTP clients that are installed in this environment, for the tests marked `sdks`."""

from importlib.util import find_spec

SDKS = [name for name in ("openai", "anthropic") if find_spec(name)]
HTTPX = [name for name in ("httpx", "httpx2") if find_spec(name)]
