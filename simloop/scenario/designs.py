"""The loop designs that ship with simloop: their names, versions and options in a file.

Not here: making a machine (runs/registry.py). The rule to keep: nothing else in simloop lists the
loops, except the modules that know the events of their programs.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from msgspec import Struct
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from simloop.errors import ScenarioError
from simloop.kernel.checked import as_written
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine
from simloop.loops import (
    opencode,
    opencode_options,
    pi,
    pi_options,
    react,
    reference,
    reference_options,
)
from simloop.loops.opencode_options import OpencodeOptions
from simloop.loops.pi_options import PiOptions
from simloop.loops.react import ReactOptions
from simloop.loops.reference_options import ReferenceOptions
from simloop.scenario.strict import Lax, One, Strict, Written, kept, wrong


def _schema_of_own(schema: dict[str, Any]) -> None:
    """Let an editor accept the names of the user's own loops, and no other keys."""
    schema["patternProperties"] = {
        ":": {
            "type": "object",
            "description": "The options of a loop of your own: arguments by name.",
        }
    }
    schema["additionalProperties"] = False


def _of_version(loop: str) -> BeforeValidator:
    """Complete options that are given for a version with those that the version has itself."""

    def completed(given: Any) -> Any:
        name, _, version = loop.partition("@")
        own = DESIGNS[name].versions[version]
        return {**as_written(own), **given} if isinstance(given, dict) else given

    return BeforeValidator(completed)


def _differing(loop: str) -> PlainSerializer:
    """Write what differs from the version, because reading completes it with that.

    Written without the defaults of the class, options would be completed to others.
    """

    def differing(options: Any) -> dict[str, Any]:
        name, _, version = loop.partition("@")
        own = as_written(DESIGNS[name].versions[version])
        return {key: value for key, value in as_written(options).items() if value != own[key]}

    return PlainSerializer(differing, when_used="json")


def _version(loop: str) -> Any:
    """Return the field for the options of a version; it is unset if there are none."""
    return Field(default=None, alias=loop, description=f"Options that differ from {loop}.")


class LoopOptions(Strict):
    """The options of the loop designs that have some; each is used when that loop runs.

    A version is a set of options, and `opencode@1.2.27: {steps: enforce}` changes one of them.
    Options of pi replace those of each version of pi. The options of the user's own loop stand
    under its `module:attribute`.
    """

    reference: One[ReferenceOptions] = Field(
        default=kept(ReferenceOptions()),
        description="The fixes of the reference loop.",
    )
    pi: One[PiOptions] = Field(
        default=kept(PiOptions()),
        description="Options of pi, and of a version such as pi@0.87.1.",
    )
    react: One[ReactOptions] = Field(default=kept(ReactOptions()), description="Options of react.")
    opencode: One[OpencodeOptions] = Field(
        default=kept(OpencodeOptions()), description="Options of opencode."
    )
    reference_documented: Written[
        Annotated[
            Lax[Annotated[ReferenceOptions, _differing("reference@documented")]] | None,
            _of_version("reference@documented"),
        ],
        ReferenceOptions | Mapping[str, Any] | None,
    ] = _version("reference@documented")
    opencode_1_1_11: Written[
        Annotated[
            Lax[Annotated[OpencodeOptions, _differing("opencode@1.1.11")]] | None,
            _of_version("opencode@1.1.11"),
        ],
        OpencodeOptions | Mapping[str, Any] | None,
    ] = _version("opencode@1.1.11")
    opencode_1_2_27: Written[
        Annotated[
            Lax[Annotated[OpencodeOptions, _differing("opencode@1.2.27")]] | None,
            _of_version("opencode@1.2.27"),
        ],
        OpencodeOptions | Mapping[str, Any] | None,
    ] = _version("opencode@1.2.27")
    opencode_1_18_33: Written[
        Annotated[
            Lax[Annotated[OpencodeOptions, _differing("opencode@1.18.33")]] | None,
            _of_version("opencode@1.18.33"),
        ],
        OpencodeOptions | Mapping[str, Any] | None,
    ] = _version("opencode@1.18.33")

    # Not revalidated: pydantic would look for the versions by the names of their fields, which are
    # no keys. `joined` makes new ones.
    model_config = ConfigDict(
        extra="allow", json_schema_extra=_schema_of_own, revalidate_instances="never"
    )

    @model_validator(mode="after")
    def _own_have_a_module(self) -> Self:
        for name, options in (self.__pydantic_extra__ or {}).items():
            if ":" not in name:  # told as pydantic tells of a key that is unknown
                raise PydanticCustomError("extra_forbidden", "unknown key", {"key": name})
            if not isinstance(options, dict):
                raise wrong(name, "must be a mapping, such as {key: value}")
        return self

    def of_own(self, loop: str) -> Mapping[str, Any]:
        """Return the options of the user's own loop, by its `module:attribute`."""
        own: Mapping[str, Mapping[str, Any]] = self.__pydantic_extra__ or {}
        return own.get(loop, {})

    def of_design(self, loop: str) -> Any:
        """Return the options of a bundled loop, or of a version of one; None if there are none."""
        name, _, version = loop.partition("@")
        design, chosen = DESIGNS.get(name), getattr(self, name, None)
        if design is None or version not in design.versions:
            return chosen
        of_version = design.versions[version]
        if design.combine is not None:
            return design.combine(chosen, of_version)
        return getattr(self, re.sub(r"\W", "_", loop)) or of_version

    @classmethod
    def key_of(cls, loop: str) -> str:
        """Return the key of a loop's options: its name, or that of its design.

        A version of pi has the key `pi`, whose options replace those of the version.
        """
        name, _, _ = loop.partition("@")
        keys = {field.alias or key for key, field in cls.model_fields.items()}
        return loop if ":" in loop or loop in keys else name

    def joined(self, loop: str, given: Mapping[str, Any]) -> "LoopOptions":
        """Return these options, with those `given` replacing the ones of `loop`.

        Raises ScenarioError.
        """
        if not given:
            return self
        key = self.key_of(loop)
        whole = self.model_dump(by_alias=True, exclude_none=True)
        return LoopOptions(**{**whole, key: {**whole.get(key, {}), **given}})


class BundledDesign(Struct, frozen=True):
    """A loop design: the maker of its machine from limits and options, and versions by name.

    `combine` merges the options of a scenario for the design and those of a version. Without it a
    version has options under its own name only.
    """

    make: Callable[[Limits, Any], Machine]
    versions: Mapping[str, Any] = {}
    combine: Callable[[Any, Any], Any] | None = None


DESIGNS: Mapping[str, BundledDesign] = {
    "reference": BundledDesign(reference.ReferenceLoop, reference_options.VERSIONS),
    "pi": BundledDesign(pi.PiLoop, pi_options.VERSIONS, PiOptions.on),
    "react": BundledDesign(react.ReactLoop),
    "opencode": BundledDesign(opencode.OpencodeLoop, opencode_options.VERSIONS),
}
"""The designs that ship with simloop, in display order."""


def check_loop(loop: str, key: str = "loop") -> None:
    """Raise ScenarioError if no loop design has this name; do not load the user's own loop."""
    name, at, version = loop.partition("@")
    design = DESIGNS.get(name)
    if design is None or (at and version not in design.versions):
        raise _unknown(loop, key)


def names() -> list[str]:
    """Return every name of a loop design, versions included."""
    return [
        *DESIGNS,
        *(f"{name}@{version}" for name, design in DESIGNS.items() for version in design.versions),
    ]


def _unknown(loop: str, key: str) -> ScenarioError:
    close = difflib.get_close_matches(loop, names(), n=1)
    nearest = f"did you mean `{close[0]}`? " if close else ""
    hint = f"{nearest}known: {', '.join(names())}, or module:attribute for one of your own"
    return ScenarioError(f"there is no loop `{loop}`", key=key, hint=hint)
