"""The loop designs that ship with simloop: their names, versions and options in a file."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, TypeVar

from msgspec import Struct
from pydantic import ConfigDict, Field, TypeAdapter, model_validator
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import WrapValidator
from pydantic_core import PydanticCustomError

from simloop.errors import ScenarioError
from simloop.kernel import limits, machine
from simloop.kernel.checks import as_written
from simloop.loops import opencode, pi, react, reference
from simloop.loops.opencode import OpencodeOptions
from simloop.loops.pi import PiOptions
from simloop.loops.react import ReactOptions
from simloop.loops.reference import ReferenceOptions
from simloop.scenario.fields import Lax, Strict, Written, kept, wrong
from simloop.scenario.mistakes import did_you_mean


def _schema_of_own(schema: dict[str, Any]) -> None:
    described = "The options of a loop of your own: arguments by name."
    schema["patternProperties"] = {":": {"type": "object", "description": described}}
    schema["additionalProperties"] = False


def _stated(given: Any, read: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the options that a mapping states, or those of an object that are no defaults.

    Only the stated ones are kept: the others must stay open.
    """
    options = read(given)
    default = as_written(type(options)())
    written = as_written(options).items()
    if isinstance(given, Mapping):
        return {key: value for key, value in written if key in given}
    return {key: value for key, value in written if value != default[key]}


if TYPE_CHECKING:
    T = TypeVar("T")
    Stated: TypeAlias = Written[Mapping[str, Any], T | Mapping[str, Any]]
else:
    Stated = Annotated[Lax[TypeVar("T")], WrapValidator(_stated), PlainSerializer(dict)]


class LoopOptions(Strict):
    """The options of the loop designs that have some; each is used when that loop runs.

    A version is a set of options. The options that are stated here replace those of the design, and
    those of its versions. The options of the user's own loop stand under its `module:attribute`.
    """

    reference: Stated[ReferenceOptions] = Field(default_factory=kept(dict))
    """The fixes of the reference loop."""
    pi: Stated[PiOptions] = Field(default_factory=kept(dict))
    """Options of pi, and of its versions, such as pi@0.87.1."""
    react: Stated[ReactOptions] = Field(default_factory=kept(dict))
    """Options of react."""
    opencode: Stated[OpencodeOptions] = Field(default_factory=kept(dict))
    """Options of opencode, and of its versions."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_schema_of_own)

    @model_validator(mode="after")
    def _own_have_a_module(self) -> Self:
        for name, options in (self.__pydantic_extra__ or {}).items():
            if not names_own(name):  # told as pydantic tells of a key that is unknown
                raise PydanticCustomError("extra_forbidden", "unknown key", {"key": name})
            if not isinstance(options, dict):
                raise wrong(name, "must be a mapping, such as {key: value}")
        return self

    def __hash__(self) -> int:
        """Return a number for the stated options: pydantic copies a default without a hash."""
        return hash(tuple(name for name in type(self).model_fields if getattr(self, name)))

    def of_own(self, loop: str) -> Mapping[str, Any]:
        own: Mapping[str, Mapping[str, Any]] = self.__pydantic_extra__ or {}
        return own.get(loop, {})

    def of_design(self, loop: str) -> Any:
        """Return the options of a bundled loop, or of a version of one."""
        name, _, version = loop.partition("@")
        design = DESIGNS[name]
        own = design.versions[version] if version else design.options()
        if not (stated := getattr(self, name)):
            return own
        return _reader_of(design.options).validate_python({**as_written(own), **stated})

    @classmethod
    def key_of(cls, loop: str) -> str:
        """Return the key of a loop's options: its name, or that of its design."""
        return loop if names_own(loop) else loop.partition("@")[0]

    def joined(self, loop: str, given: Mapping[str, Any]) -> "LoopOptions":
        """Return these options, with those `given` for `loop`. Raises ScenarioError."""
        key = self.key_of(loop)
        whole = self.model_dump()
        return LoopOptions(**{**whole, key: {**whole.get(key, {}), **given}})


@functools.cache
def _reader_of(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(Lax[kind])


class BundledDesign(Struct, frozen=True):
    """A loop design: the maker of its machine, the class of its options, and sets of these."""

    make: Callable[[limits.Limits, Any], machine.Machine]
    options: type
    versions: Mapping[str, Any] = {}


DESIGNS: Mapping[str, BundledDesign] = {
    "reference": BundledDesign(reference.ReferenceLoop, ReferenceOptions, reference.VERSIONS),
    "pi": BundledDesign(pi.PiLoop, PiOptions, pi.VERSIONS),
    "react": BundledDesign(react.ReactLoop, ReactOptions),
    "opencode": BundledDesign(opencode.OpencodeLoop, OpencodeOptions, opencode.VERSIONS),
}

PROGRAM = "$ "
"""The begin of the name of a loop that is a whole program: its command line follows."""


def is_program(loop: object) -> bool:
    """Return whether this is the name of a loop that is a whole program."""
    return isinstance(loop, str) and loop.startswith(PROGRAM)


def names_own(loop: str) -> bool:
    """Return whether this is the name of a loop of the user's own."""
    return ":" in loop or is_program(loop)


def check_loop(loop: str, key: str = "loop") -> None:
    """Raise ScenarioError if no loop design has this name; do not load the user's own loop."""
    name, at, version = loop.partition("@")
    if (design := DESIGNS.get(name)) is None or (at and version not in design.versions):
        known = f"known: {', '.join(names())}, or module:attribute for one of your own"
        hint = f"{did_you_mean(loop, names())} {known}".lstrip()
        raise ScenarioError(f"there is no loop `{loop}`", key=key, hint=hint)


def check_judge_as(judge_as: str, loop: object) -> None:
    """Raise ScenarioError if `loop` cannot be judged as this design; empty means no design."""
    if not judge_as:
        return
    if isinstance(loop, str) and not names_own(loop):
        message = f"`{loop}` is bundled with simloop and has expectations of its own"
        hint = "leave it out, or name a loop of your own as module:attribute"
        raise ScenarioError(message, key="judge_as", hint=hint)
    check_loop(judge_as, "judge_as")


def names() -> list[str]:
    """Return every name of a loop design, versions included."""
    versions = (f"{name}@{each}" for name, design in DESIGNS.items() for each in design.versions)
    return [*DESIGNS, *versions]
