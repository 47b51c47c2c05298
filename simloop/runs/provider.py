"""The fixture `provider` of an async test: the script of the model, and what was asked of it.

Not here: the fixture itself (pytest_plugin). The rule to keep: each run of the test begins with the
replies that were given before its body, so that runs with several seeds are independent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from simloop.errors import ExpectationFailed, ScenarioError
from simloop.messages import Message, Request, ToolSpec
from simloop.runs.async_test import AsyncTest
from simloop.runs.mismatch import mismatches_so_far
from simloop.scenario.expect import ExpectedTraffic
from simloop.scenario.loader import expected
from simloop.scenario.replies import Reply
from simloop.trace.requests import requests
from simloop.wire.provider import Clients
from simloop.world.current import current_world
from simloop.world.model_port import Completion, ModelPort
from simloop.world.wire_options import WireOptions


class Provider(Clients):
    """The provider of models in the simulation of one test."""

    def __init__(self) -> None:
        self._options = WireOptions()
        self._before: list[Reply] = []
        self._test: AsyncTest | None = None

    @property
    def replies(self) -> Sequence[Reply]:
        """Return the replies that were given before the body of the test."""
        return self._before

    def begin(self, test: AsyncTest) -> None:
        """Begin a run of the test, which has the replies that were given before."""
        self._test = test
        if self._options != WireOptions():
            test.prepared.write_as(self._options)

    def script(self, *replies: Reply) -> None:
        """Add replies of the model, in order or by rule, to the end of the script.

        Call it before the agent asks, in a fixture or in the body of the test, as often as needed.
        A reply that is not used fails a test that would pass.
        """
        for each in replies:
            if not isinstance(each, Reply):
                hint = "write provider.script(Reply(say=...), Reply(call={...}))"
                raise ScenarioError(f"a script has replies, not {type(each).__name__}", hint=hint)
        if self._test is None:
            self._before += replies
        else:
            self._test.prepared.add(replies)

    @property
    def requests(self) -> list[Request]:
        """Return the requests so far exactly as sent, whatever the wire format."""
        return list(requests(self._run().prepared.trace.entries))

    @property
    def bodies(self) -> Mapping[int, bytes]:
        """Return the raw bodies of the requests so far that came over HTTP, by their numbers."""
        return self._run().prepared.bodies

    @property
    def options(self) -> WireOptions:
        """How the provider writes its replies over HTTP; assign others to change it."""
        return self._options if self._test is None else self._test.prepared.scenario.wire

    @options.setter
    def options(self, options: WireOptions) -> None:
        if not isinstance(options, WireOptions):
            hint = 'write provider.options = WireOptions(framing="crlf")'
            raise ScenarioError(f"options are WireOptions, not {type(options).__name__}", hint=hint)
        if self._test is None:
            self._options = options
        else:
            self._test.prepared.write_as(options)

    @property
    def model(self) -> ModelPort:
        """Return the native client: `await provider.model.reply(messages, tools=...)`."""
        world = current_world()
        if world is None:
            raise _not_begun()
        return world.model

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        system_prompt: str = "",
        tools: Iterable[ToolSpec] = (),
    ) -> Completion:
        """Send a request with the native client. Raises ModelCallFailed if the call fails."""
        return await self.model.reply(messages, system_prompt=system_prompt, tools=tools)

    def expect(self, **given: Unpack[ExpectedTraffic]) -> None:
        """Check the traffic so far, with keys of `expect` in a scenario file.

            provider.expect(requests=3, elapsed={"max": "15s"})

        It checks at once, so call it after the agent has returned. The keys are requests, elapsed,
        calls, tools_run and sent. `violates` and `broken_pairs` state what is known to be wrong,
        for the check at the end of the test. Raises ExpectationFailed, with one line for each
        expectation that does not hold.
        """
        for key in given:
            if key not in ExpectedTraffic.__annotations__:
                known = ", ".join(ExpectedTraffic.__annotations__)
                hint = f"assert on what your agent returned; it takes {known}"
                raise ScenarioError("an async test does not expect this", key=key, hint=hint)
        wanted, test = expected(given), self._run()
        test.violates.update(wanted.violates or {})
        test.broken_pairs += tuple(wanted.broken_pairs)
        prepared = test.prepared
        found = mismatches_so_far(wanted, prepared.trace, prepared.elapsed_ns)
        if found:
            raise ExpectationFailed("\n".join(map(str, found)))

    def _run(self) -> AsyncTest:
        if self._test is None:
            raise _not_begun()
        return self._test


def _not_begun() -> ScenarioError:
    hint = "only `script` can be used before the body of the test"
    return ScenarioError("the test has not begun", hint=hint)
