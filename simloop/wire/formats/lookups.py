"""Requests to a provider that ask no model: its models, embeddings, and what it keeps.

A vector is made of the words of its text, so that texts with common words are near each other.
The list of models has the names on simloop's pages, and any name is that of a model.
"""

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from math import sqrt
from typing import Any, NamedTuple

from simloop.kernel.policies import utf8_bytes_over_4
from simloop.wire.formats import payload
from simloop.wire.formats.payload import JsonObject
from simloop.wire.formats.storage import Storage
from simloop.wire.formats.wire_format import WrongRequest
from simloop.world.http import HttpRequest


class Lookup(NamedTuple):
    """A request that a function answers; `anywhere` is false for one of providers' hosts alone."""

    answer: Callable[[Storage, int], JsonObject]
    anywhere: bool


def lookup_of(request: HttpRequest) -> Lookup | None:
    """Return how a request is answered, with the provider's storage and the time in seconds."""
    for pattern, function in _ROUTES.items():
        found = re.fullmatch(pattern, f"{request.method} {request.path}")
        if found is not None:
            answer = partial(function, request, *found.groups())
            return Lookup(answer, function is _embeddings)
    return None


# ---------------------------------------------------------------- models

_MODELS = {
    "openai": ("gpt-5", "gpt-5-mini", "text-embedding-3-small"),
    "anthropic": ("claude-sonnet-5",),
    "google": ("models/gemini-3-pro",),
}


def _models(request: HttpRequest, _: Storage, now_s: int) -> JsonObject:
    owner = _owner_of(request)
    data = [_described(owner, name, now_s) for name in _MODELS[owner]]
    if owner == "google":
        return {"models": data}
    return {"object": "list", "data": data} if owner == "openai" else _page(data)


def _model(request: HttpRequest, name: str, _: Storage, now_s: int) -> JsonObject:
    owner = _owner_of(request)
    return _described(owner, f"models/{name}" if owner == "google" else name, now_s)


def _owner_of(request: HttpRequest) -> str:
    if request.header("anthropic-version"):
        return "anthropic"
    return "google" if request.header("x-goog-api-key") else "openai"


def _described(owner: str, name: str, now_s: int) -> JsonObject:
    if owner == "google":
        return {"name": name, "displayName": name.removeprefix("models/")}
    if owner == "openai":
        return {"id": name, "object": "model", "created": now_s, "owned_by": owner}
    created_at = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": name, "display_name": name, "created_at": created_at}


# ---------------------------------------------------------------- embeddings

_DIMENSIONS = {"text-embedding-3-large": 3072}
_MOST = 4096


def _embeddings(request: HttpRequest, _: Storage, __: int) -> JsonObject:
    body = payload.body_of(request)
    model, given = payload.text_at(body, "model", ""), body.get("input")
    texts = [_text(one) for one in _inputs(given)]
    if not texts:
        raise WrongRequest("input", "'$.input' is invalid. Please check the API reference.")
    count = body.get("dimensions") or _DIMENSIONS.get(model, 1536)
    if not isinstance(count, int) or not 0 < count <= _MOST:
        raise WrongRequest("dimensions", f"'dimensions' should be between 1 and {_MOST}.")
    packed = [struct.pack(f"<{count}f", *_vector(text, count)) for text in texts]
    is_base64 = body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": b64encode(one).decode() if is_base64 else struct.unpack(f"<{count}f", one),
        }
        for index, one in enumerate(packed)
    ]
    tokens = sum(map(utf8_bytes_over_4, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _inputs(given: Any) -> Sequence[Any]:
    """Return the inputs: a text, numbers of tokens, or a list of either."""
    if isinstance(given, list):
        return [given] if given and isinstance(given[0], int) else given
    return [given] if isinstance(given, str) else ()


def _text(given: Any) -> str:
    return given if isinstance(given, str) else payload.wire_json(given)


def _vector(text: str, count: int) -> list[float]:
    vector = [0.0] * count
    for word in re.findall(r"\w+", text.lower()) or [text]:
        digest = sha256(word.encode("utf-8", "replace")).digest()
        vector[int.from_bytes(digest[:4]) % count] += 1 if digest[4] % 2 else -1
    length = sqrt(sum(each * each for each in vector))
    return [each / length for each in vector] if length else [1.0, *vector[1:]]


# ---------------------------------------------------------------- responses and conversations


def _response(request: HttpRequest, name: str, storage: Storage, _: int) -> JsonObject:
    kept = storage.response(name)
    if request.method == "DELETE":
        del storage.responses[name]
        return {"id": name, "object": "response", "deleted": True}
    if request.query.get("stream") == "true":
        raise WrongRequest("stream", "simloop streams a response once.")
    return kept.body


def _input_items(request: HttpRequest, name: str, storage: Storage, _: int) -> JsonObject:
    items = storage.response(name).seen
    return _listed(request, [{"id": f"item_{name}_{at}", **one} for at, one in enumerate(items)])


def _new_conversation(request: HttpRequest, storage: Storage, now_s: int) -> JsonObject:
    return _begun(storage.begin(payload.body_of(request)), now_s)


def _conversation(request: HttpRequest, name: str, storage: Storage, now_s: int) -> JsonObject:
    storage.conversation(name)
    if request.method == "DELETE":
        del storage.conversations[name]
        return {"id": name, "object": "conversation.deleted", "deleted": True}
    return _begun(name, now_s)


def _begun(conversation: str, now_s: int) -> JsonObject:
    return {"id": conversation, "object": "conversation", "created_at": now_s, "metadata": {}}


def _items(request: HttpRequest, name: str, storage: Storage, _: int) -> JsonObject:
    if request.method == "POST":
        return _page(storage.add(name, storage.items(payload.body_of(request), "items")))
    return _listed(request, storage.conversation(name))


def _listed(request: HttpRequest, items: Sequence[JsonObject]) -> JsonObject:
    """Return the page of items that a query asks for: the newest first, unless it says `asc`."""
    query = request.query
    ordered = items if query.get("order") == "asc" else items[::-1]
    ids = [each["id"] for each in ordered]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    limit = query.get("limit", "")
    end = start + (int(limit) if re.fullmatch("[0-9]{1,3}", limit) else 20)
    return _page(ordered[start:end], has_more=end < len(ids))


def _page(data: Sequence[JsonObject], *, has_more: bool = False) -> JsonObject:
    ids = [each["id"] for each in data] or [None]
    ends = {"first_id": ids[0], "last_id": ids[-1], "has_more": has_more}
    return {"object": "list", "data": data, **ends}


_ROUTES: dict[str, Callable[..., JsonObject]] = {
    r"GET .*/models": _models,
    r"GET .*/models/([^:]+)": _model,
    r"POST .*/embeddings": _embeddings,
    r"(?:GET|DELETE) .*/responses/([^/]+)": _response,
    r"GET .*/responses/([^/]+)/input_items": _input_items,
    r"POST .*/conversations": _new_conversation,
    r"(?:GET|DELETE) .*/conversations/([^/]+)": _conversation,
    r"(?:GET|POST) .*/conversations/([^/]+)/items": _items,
}
"""The functions that answer methods and paths."""
