"""Requests to a provider that ask no model: its models, embeddings, and what it keeps.

A vector is made of the words of its text, so that texts with common words are near each other.
The list of models has the names on simloop's pages, and any name is that of a model.
"""

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from math import sqrt
from typing import Any

from simloop.kernel.policies import utf8_bytes_over_4
from simloop.wire.formats import payload
from simloop.wire.formats.payload import JsonObject
from simloop.wire.formats.storage import Storage, items_of, named
from simloop.wire.formats.wire_format import WrongRequest
from simloop.world.http import HttpRequest


def lookup_of(request: HttpRequest) -> Callable[[Storage, int], JsonObject] | None:
    """Return the function that answers a request, of the provider's storage and the Unix time."""
    for pattern, function in _ROUTES.items():
        if (found := re.fullmatch(pattern, f"{request.method} {request.path}")) is not None:
            return partial(function, request, *found.groups())
    return None


_ANTHROPIC, _GOOGLE = "anthropic-version", "x-goog-api-key"
_MODELS = payload.PROVIDERS["models"]  # by the header that tells the provider
_DIMENSIONS = {"text-embedding-3-large": 3072}
_MOST = 4096


def _models(request: HttpRequest, storage: Storage, now_s: int) -> JsonObject:
    kind = next((each for each in _MODELS if request.header(each)), "")
    data = [_model(request, name, storage, now_s) for name in _MODELS[kind]]
    return {"models": data} if kind == _GOOGLE else _listed(data)


def _model(request: HttpRequest, name: str, _: Storage, now_s: int) -> JsonObject:
    if request.header(_GOOGLE):
        return {"name": f"models/{name}", "displayName": name}
    if not request.header(_ANTHROPIC):
        return {"id": name, "object": "model", "created": now_s, "owned_by": "openai"}
    own = {"type": "model", "id": name, "display_name": name}
    return own | {"created_at": datetime.fromtimestamp(now_s, UTC).isoformat()}


def _embeddings(request: HttpRequest, _: Storage, __: int) -> JsonObject:
    body = payload.body_of(request)
    model, given = payload.text_at(body, "model", ""), body.get("input")
    if not given or not isinstance(given, str | list):
        raise payload.refusal("openai", "embedding", key="input")
    is_one = isinstance(given, str) or isinstance(given[0], int)  # of the numbers of its tokens
    inputs = [given] if is_one else given
    texts = [one if isinstance(one, str) else json.dumps(one) for one in inputs]
    count = body.get("dimensions") or _DIMENSIONS.get(model, 1536)
    if not isinstance(count, int) or not 0 < count <= _MOST:
        raise payload.refusal("openai", "dimensions", _MOST, key="dimensions")
    is_base64, data = body.get("encoding_format") == "base64", list[JsonObject]()
    for text in texts:
        packed = struct.pack(f"<{count}f", *_vector(text, count))
        vector = b64encode(packed).decode() if is_base64 else struct.unpack(f"<{count}f", packed)
        data.append({"object": "embedding", "index": len(data), "embedding": vector})
    tokens = sum(map(utf8_bytes_over_4, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _vector(text: str, count: int) -> list[float]:
    vector = [0.0] * count
    for word in re.findall(r"\w+", text.lower()):
        vector[int.from_bytes(sha256(word.encode("utf-8", "replace")).digest()[:4]) % count] += 1
    length = sqrt(sum(each * each for each in vector))
    return [each / length for each in vector] if length else [1.0, *vector[1:]]


def _response(request: HttpRequest, name: str, storage: Storage, __: int) -> JsonObject:
    kept, _ = storage.response(name)
    if request.method == "DELETE":
        del storage.responses[name]
        return {"id": name, "object": "response.deleted", "deleted": True}
    if request.query.get("stream") == "true":
        raise WrongRequest("stream", "simloop streams a response once.", is_limit=True)
    return kept


def _input_items(request: HttpRequest, name: str, storage: Storage, __: int) -> JsonObject:
    # With those of the responses before, as in the list that semantic-kernel has recorded.
    _, seen = storage.response(name)
    return _newest(request, [named(item, f"item_{name}_{at}") for at, item in enumerate(seen)])


def _conversation(request: HttpRequest, name: str, storage: Storage, now_s: int) -> JsonObject:
    storage.conversation(name)
    if request.method == "DELETE":
        del storage.conversations[name]
        return {"id": name, "object": "conversation.deleted", "deleted": True}
    return _begun_at(name, now_s)


def _begun_at(conversation: str, now_s: int) -> JsonObject:
    return {"id": conversation, "object": "conversation", "created_at": now_s, "metadata": {}}


def _begun(request: HttpRequest, storage: Storage, now_s: int) -> JsonObject:
    return _begun_at(storage.begin(items_of(payload.body_of(request), "items")), now_s)


def _items(request: HttpRequest, name: str, storage: Storage, _: int) -> JsonObject:
    if request.method == "POST":
        return _listed(storage.add(name, items_of(payload.body_of(request), "items")))
    return _newest(request, storage.conversation(name))


def _remove(_: HttpRequest, name: str, item: str, storage: Storage, now_s: int) -> JsonObject:
    kept = storage.conversation(name)
    storage.conversations[name] = tuple(each for each in kept if each["id"] != item)
    return _begun_at(name, now_s)


def _newest(request: HttpRequest, items: Sequence[JsonObject]) -> JsonObject:
    """Return the list that a query asks for, on one page: the newest first, unless it is `asc`."""
    limit = re.fullmatch("[0-9]{1,3}", request.query.get("limit", ""))
    shown = items if request.query.get("order") == "asc" else items[::-1]
    return _listed(shown[: int(limit[0])] if limit else shown)


def _listed(data: Sequence[JsonObject]) -> JsonObject:
    ids = [each["id"] for each in data] or [None]
    ends = {"first_id": ids[0], "last_id": ids[-1], "has_more": False}
    return {"object": "list", "data": data, **ends}


_ROUTES: dict[str, Callable[..., Any]] = {
    r"GET .*/models": _models, r"GET .*/models/(.+)": _model, r"POST .*/embeddings": _embeddings,
    r"(?:GET|DELETE) .*/responses/([^/]+)": _response,
    r"GET .*/responses/([^/]+)/input_items": _input_items, r"POST .*/conversations": _begun,
    r"(?:GET|DELETE) .*/conversations/([^/]+)": _conversation,
    r"(?:GET|POST) .*/conversations/([^/]+)/items": _items,
    r"DELETE .*/conversations/([^/]+)/items/([^/]+)": _remove,
}  # fmt: skip
