"""The objects that effect handlers share during one conversation."""

from typing import NamedTuple

from simloop.engine.hooks import Callbacks, Hooks
from simloop.engine.user_code import UserCode
from simloop.trace.recorder import Recorder
from simloop.world.cancellation import Cancellation


class RunContext(NamedTuple):
    """The recorder, the cancellation and the user code, shared by the effect handlers."""

    recorder: Recorder
    cancellation: Cancellation
    user_code: UserCode
    hooks: Hooks
    callbacks: Callbacks
