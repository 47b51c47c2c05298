"""The environment of a program in a simulation: keys of providers, and no way around the world.

A key of the machine's stays, because a program may look at it; no address and no proxy does.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

KEY = "simulated"
"""The key of every provider. It is none: no simulation talks to a provider."""

KEYS = (
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY",
    "GOOGLE_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
)  # fmt: skip

ADDED: Mapping[str, str] = {
    **dict.fromkeys(KEYS, KEY),
    "AWS_DEFAULT_REGION": "us-east-1",
    # The machine's own clouds are not asked who the program is.
    "AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true",
    # litellm looks for the prices of models in the internet when it is imported.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}  # fmt: skip
"""The variables that a run sets where they are not set."""
_ADDRESSES = (
    "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE",
    "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy",
)  # fmt: skip


@contextmanager
def dummy_keys(*, hides_addresses: bool = True) -> Iterator[None]:
    """Set the keys that are not set, and put back at the end what nobody has changed since."""
    environ = os.environ
    added = {name: value for name, value in ADDED.items() if name not in environ}
    addresses = _ADDRESSES if hides_addresses else ()
    hidden = {name: environ.pop(name) for name in addresses if name in environ}
    environ.update(added)
    try:
        yield
    finally:
        for name, value in added.items():
            if environ.get(name) == value:
                del environ[name]
        for name, value in hidden.items():
            environ.setdefault(name, value)
