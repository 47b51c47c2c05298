"""The services of a scenario: the answers to HTTP requests that are not for a model."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import parse_qsl, unquote

import msgspec
from pydantic import AfterValidator, Field, model_serializer, model_validator

from simloop.scenario import fields
from simloop.scenario.expect import REST
from simloop.scenario.fields import NO_TIME, Strict, differs, kept, wrong
from simloop.world import http, services
from simloop.world.faults import FaultPlace, SiteFault, Stage

METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "any")
"""The keys of a route that hold its path; one of them says its method."""
_ONE_METHOD = f"a route has one method: give one of {', '.join(METHODS)}"
_BODIES = ("json", "text", "pieces")
_PARAMETER = re.compile(r"\{(\w+)\}")


def _path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("must be a path that begins with /, such as /orders/{id}")
    return path


Address = Annotated[str, AfterValidator(services.check_address)]
"""The address of a service, such as `https://orders.example/api`."""
_Path = Annotated[str, AfterValidator(_path)] | None


class WhenAsked(Strict):
    """The condition of a route, besides its path; a request must satisfy every given key."""

    body: Any = None
    """JSON that the body has: of a mapping at least these keys, with these values."""
    contains: str | None = None
    """Text that the body contains."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers that the request has."""

    def matches(self, request: http.HttpRequest) -> bool:
        if any(request.header(name.lower()) != value for name, value in self.headers.items()):
            return False
        if self.contains is not None and self.contains not in request.text:
            return False
        try:
            return self.body is None or _has(request.json(), self.body)
        except (ValueError, RecursionError):
            return False


def _has(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(given, dict):
        return all(key in given and _has(given[key], value) for key, value in wanted.items())
    return bool(given == wanted)


with warnings.catch_warnings():  # pydantic has an old method `json`, which nothing calls
    warnings.simplefilter("ignore", UserWarning)

    class Answer(Strict):
        """The answer of a service to one request: a status with a body, or a failure.

        `{name}` in a text of it is the parameter of that name in the path of its route.
        """

        __slots__ = ("_played",)  # see Reply

        status: Annotated[int, Field(ge=200, le=599)] = 200
        """The HTTP status."""
        json: Any = None
        """The body, sent as JSON."""
        text: str | None = None
        """The body as text."""
        pieces: list[str] | None = None
        """The body as text that arrives in these pieces."""
        headers: dict[str, str] = Field(default_factory=dict)
        """The response headers."""
        takes: fields.WrittenDuration = kept(NO_TIME)
        """Virtual time before the status comes."""
        per_piece: fields.WrittenDuration = kept(NO_TIME)
        """Virtual time before each further piece."""
        lost: FaultPlace | None = None
        """The connection is lost there."""
        stall: FaultPlace | None = None
        """Nothing comes from there on."""

        @model_validator(mode="after")
        def _is_one_answer(self) -> Self:
            given = [name for name in (*_BODIES, "lost", "stall") if differs(self, name)]
            bodies = [name for name in given if name in _BODIES]
            if len(bodies) > 1:
                raise wrong(bodies[1], f"an answer has one body: give one of {', '.join(bodies)}")
            if {"lost", "stall"} <= {*given}:
                raise wrong("stall", "an answer fails in one way: give either lost or stall")
            if self.per_piece and not self.pieces:
                raise wrong("per_piece", "this body is not in pieces: write pieces: [...]")
            needs = "a body: add json, text or pieces"
            fields.check_place(self.lost, self.stall, "body" if bodies else "", needs)
            try:
                services.check_head(self.status, self.headers.items())
            except ValueError as error:
                raise wrong("headers", str(error)) from None
            try:
                services.json_bytes(self.json)
            except (TypeError, ValueError):
                raise wrong("json", "this is not JSON: it has no NaN and no infinity") from None
            return self

        def play(self, values: Mapping[str, str]) -> services.TimedAnswer:
            """Return the answer, in whose texts each `{name}` of `values` is its value."""
            played: services.TimedAnswer | None = getattr(self, "_played", None)
            if played is None:
                played = self._timed()
                object.__setattr__(self, "_played", played)
            if not values:
                return played
            pieces, headers = played.pieces, played.headers
            for name, value in values.items():
                mark, text = f"{{{name}}}", value.encode("utf-8", "replace")
                if self.json is not None:
                    text = services.json_bytes(value)[1:-1]
                pieces = tuple([piece.replace(mark.encode(), text) for piece in pieces])
                if self.headers:
                    headers = tuple([(key, told.replace(mark, value)) for key, told in headers])
            return msgspec.structs.replace(played, pieces=pieces, headers=headers)

        def _timed(self) -> services.TimedAnswer:
            return services.timed(
                self.status,
                next((getattr(self, name) for name in _BODIES if differs(self, name)), None),
                is_json=self.json is not None,
                headers={name.lower(): value for name, value in self.headers.items()},
                takes_ns=self.takes, per_piece_ns=self.per_piece, lost=self.lost, stall=self.stall,
            )  # fmt: skip


class Route(Answer):
    """The answer of a service to the requests of one method and path."""

    get: _Path = None
    """GET requests with this path: /orders/{id}."""
    post: _Path = None
    """POST requests with this path."""
    put: _Path = None
    """PUT requests with this path."""
    patch: _Path = None
    """PATCH requests with this path."""
    delete: _Path = None
    """DELETE requests with this path."""
    head: _Path = None
    """HEAD requests with this path."""
    options: _Path = None
    """OPTIONS requests with this path."""
    any: _Path = None
    """Requests of any method with this path."""
    when: fields.OneOrNone[WhenAsked] = kept(None)
    """Use it for such requests only."""
    times: Annotated[int, Field(ge=1)] | Literal["always"] = "always"
    """How often it is used: a number must be reached, and always is any number."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_path(cls, data: Any) -> Any:
        if isinstance(data, dict) and "path" in data:  # its nearest key, `patch`, is not meant
            raise wrong("path", f"{_ONE_METHOD}, with the path as its value")
        return data

    @model_validator(mode="after")
    def _has_one_method(self) -> Self:
        given = [name for name in METHODS if getattr(self, name) is not None]
        if len(given) != 1:
            raise wrong(given[1] if given else "", _ONE_METHOD)
        return self

    @model_serializer(mode="wrap")
    def _method_first(self, dump: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        dumped = dump(self)
        return {name: dumped[name] for name in METHODS if name in dumped} | dumped

    def rule(self, position: str) -> services.ServiceRule:
        method = next(name for name in METHODS if getattr(self, name) is not None)
        pattern = _pattern(getattr(self, method))
        wanted, when = "" if method == "any" else method.upper(), self.when

        def matches(request: http.HttpRequest, rest: str) -> Mapping[str, str] | None:
            values = pattern.values(rest) if wanted in ("", request.method) else None
            return values if values is None or when is None or when.matches(request) else None

        times = None if self.times == "always" else self.times
        return services.ServiceRule(matches, self.play, position, times)


def rules_of(address: str, routes: Iterable[Route], first: int = 0) -> list[services.ServiceRule]:
    """Return routes as the rules of the service at an address; the first has that number."""
    numbered = enumerate(routes, first)
    return [route.rule(f"services.{address}.{number}") for number, route in numbered]


class _Pattern(NamedTuple):
    path: re.Pattern[str]
    names: tuple[str, ...]
    query: tuple[tuple[str, re.Pattern[str], tuple[str, ...]], ...]

    def values(self, rest: str) -> dict[str, str] | None:
        path, _, query = rest.partition("?")
        if (found := self.path.fullmatch(path or "/")) is None:
            return None
        values = dict(zip(self.names, map(unquote, found.groups()), strict=True))
        given = parse_qsl(query, keep_blank_values=True)
        for name, pattern, names in self.query:
            texts = (pattern.fullmatch(value) for key, value in given if key == name)
            if (match := next(filter(None, texts), None)) is None:
                return None
            values.update(zip(names, match.groups(), strict=True))
        return values


@lru_cache(maxsize=1_000)
def _pattern(written: str) -> _Pattern:
    path, _, query = written.partition("?")
    ends = path.endswith(REST)
    path, names = _expression(path.removesuffix(REST), "([^/]+)")
    given = parse_qsl(query, keep_blank_values=True)
    conditions = ((name, *_expression(value, "(.*)")) for name, value in given)
    patterns = tuple((name, re.compile(value, re.DOTALL), own) for name, value, own in conditions)
    return _Pattern(re.compile(path + ".*" * ends, re.DOTALL), names, patterns)


def _expression(text: str, parameter: str) -> tuple[str, tuple[str, ...]]:
    pieces = _PARAMETER.split(text)
    pieces[::2] = map(re.escape, pieces[::2])
    names = tuple(pieces[1::2])
    pieces[1::2] = [parameter] * len(names)
    return "".join(pieces), names


def failing(route: Route, times: Any) -> Route:
    """Return a route that fails so many `times`, or "always", for the requests of another one."""
    of: Any = {name: getattr(route, name) for name in METHODS if getattr(route, name) is not None}
    return Route(**of, when=route.when, status=500, times=times)


def with_fault(routes: list[Route], fault: SiteFault, times: int, of: str = "any") -> list[Route]:
    """Return the routes of a service whose first requests fail, or whose answers come late."""
    if fault.stage is Stage.LATE:
        late = Route(any="/", **fault.keys).takes
        return [route.model_copy(update={"takes": late}) for route in routes]
    keys: Any = {of: f"/{REST}", **fault.keys}
    return [Route(**keys, times=times), *routes]


@cache
def answer_of_fault(fault: SiteFault) -> services.TimedAnswer:
    """Return the answer of a service with a fault of the catalogue."""
    return Answer(**fault.keys).play({})
