"""Notes of the user's code in the trace of its run."""

from simloop.escape import writable
from simloop.trace import entries
from simloop.world.current import current_world


def note(text: str) -> None:
    """Write a note into the trace of the run that the caller belongs to, at the current time.

        simloop.note(f"cache miss for {key}")

    Outside of a run it does nothing, so that it may stay in the code of a product.
    """
    world = current_world()
    if world is not None:
        world.model.recorder.record(entries.Note, writable(str(text)))
