"""What the parts of the driver share during one run."""

from dataclasses import dataclass

from simloop.sim.hooks import Callbacks, Hooks
from simloop.sim.interrupts import Interrupts
from simloop.sim.usercode import UserCode
from simloop.trace.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Session:
    """One run's pen, stop button and user code."""

    recorder: Recorder
    interrupts: Interrupts
    user_code: UserCode
    hooks: Hooks
    callbacks: Callbacks
