"""VCR cassettes: vcrpy's YAML and JSON, those of pydantic-ai, old httpx stubs, and cassetter.

A cassette has no times and no borders of chunks. Its order is that in which answers were complete.
"""

import importlib
import tomllib
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from simloop.errors import ScenarioError
from simloop.recordings.exchanges import HttpExchange, add_exchanges, from_base64
from simloop.recordings.files import MOST_BYTES, LeftOut, RecordingFile, at, mapping, unpacked, word
from simloop.recordings.recording import Recording
from simloop.world.http import Headers, HttpRequest

_LIBRARIES = {"br": "brotli", "zstd": "zstandard"}


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a cassette. Raises ScenarioError."""
    given = _whole(file).get("interactions")
    if not isinstance(given, list):
        raise file.fail("this cassette has no list of interactions")
    add_exchanges(recording, map(mapping, given), _exchange)


def _whole(file: RecordingFile) -> Mapping[str, Any]:
    if (start := file.data.lstrip()[:1]) == b"{":
        return mapping(file.json())
    if start == b"[" or b"\n[[interactions]]" in file.data:
        try:
            return tomllib.loads(file.text)
        except tomllib.TOMLDecodeError as error:
            raise file.fail(f"this is no TOML: {error}") from None
    return mapping(file.yaml())


def _exchange(interaction: Mapping[str, Any]) -> HttpExchange:
    asked, answer = mapping(interaction, "request"), mapping(interaction, "response")
    url, method = word(asked, "uri", "url"), word(asked, "method")
    status = at(answer, "status.code", "status", "status_code")
    if not (url and method and isinstance(status, int)):
        raise LeftOut("an interaction without a method, an address or a status")
    headers = _headers(answer.get("headers"))
    sent, came = _body(asked, ()), _body(answer, headers)
    request = HttpRequest(method.upper(), url, _headers(asked.get("headers")), sent)
    return HttpExchange(request, status, headers, came)


def _headers(given: Any) -> Headers:
    return tuple(
        (str(name).lower(), str(value)) for name, values in mapping(given).items()
        for value in (values if isinstance(values, list) else [values])
    )  # fmt: skip


def _body(part: Mapping[str, Any], headers: Headers) -> bytes:
    if "parsed_body" in part:
        return msgspec.json.encode(part["parsed_body"])
    body = part.get("body", part.get("content"))
    decoded = "body" not in part  # old httpx stubs: the header still says gzip
    if isinstance(body, dict):
        kind = body.get("type")
        body = body.get("string", body.get("content", body.get("text", "")))
        if kind == "json":
            return msgspec.json.encode(body)
        if kind == "base64" and isinstance(body, str):
            body = from_base64(body)
    data = body.encode("utf-8", "replace") if isinstance(body, str) else body
    if not isinstance(data, bytes):
        return b"" if data is None else msgspec.json.encode(data)
    encoding = "" if decoded else dict(headers).get("content-encoding", "").strip().lower()
    return data if encoding in ("", "identity", "utf-8") else unencoded(data, encoding)


def unencoded(data: bytes, encoding: str) -> bytes:
    """Return a body without its Content-Encoding. Raises LeftOut."""
    try:
        match encoding:
            case "gzip" | "x-gzip" if data.startswith(b"\x1f\x8b"):
                return unpacked(data)
            case "deflate" if data[:1] == b"\x78":
                return _inflated(data)
            case "br" | "zstd":
                return _by_library(data, encoding)
            case _:  # one that does not begin as its encoding does was decoded by the recorder
                return data
    except (zlib.error, ScenarioError) as error:
        raise LeftOut(f"a body that cannot be read: its {encoding} is broken: {error}") from None


def _inflated(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    whole = unpacker.decompress(data, MOST_BYTES)
    if not unpacker.eof:
        raise zlib.error("it is cut, or too long")
    return whole


def _by_library(data: bytes, encoding: str) -> bytes:
    try:
        library = importlib.import_module(_LIBRARIES[encoding])
    except ImportError:
        told = f"it is encoded as {encoding}: pip install 'agent-simloop[recordings]'"
        raise LeftOut(f"a body that cannot be read: {told}") from None
    try:
        if encoding == "br":
            return bytes(library.decompress(data))
        with library.ZstdDecompressor().stream_reader(data) as stream:
            return bytes(stream.read(MOST_BYTES))
    except Exception:  # noqa: BLE001 - each library has errors of its own
        return data  # the recorder has decoded it, and left the header
