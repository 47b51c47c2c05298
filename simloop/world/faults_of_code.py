"""The fault that an exception of a model's code stands for.

Not here: keeping the exception itself (user_errors.py).
"""

from simloop.messages import Fault
from simloop.world.user_errors import describe

# What JavaScript's SDKs and their ports to Python raise when a request is aborted.
_ABORT_ERRORS = frozenset({"AbortError", "APIUserAbortError"})


def fault_of(error: Exception) -> Fault:
    """Return the fault for an exception of a model function or an SDK, by status or type."""
    message = describe(error)
    status = getattr(error, "status_code", getattr(error, "status", None))
    if isinstance(status, int):
        return Fault(message, status=status)
    if type(error).__name__ in _ABORT_ERRORS:
        return Fault(message, code="aborted")
    if isinstance(error, TimeoutError):
        return Fault(message, code="timeout")
    return Fault(message, code="connection" if isinstance(error, ConnectionError) else "")
