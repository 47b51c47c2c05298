"""What those who carry out effects share during one conversation."""

from dataclasses import dataclass

from simloop.sim.hooks import Callbacks, Hooks
from simloop.sim.interrupts import Interrupts
from simloop.sim.usercode import UserCode
from simloop.trace.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Session:
    """The pen, the stop button and the user code."""

    recorder: Recorder
    interrupts: Interrupts
    user_code: UserCode
    hooks: Hooks
    callbacks: Callbacks
