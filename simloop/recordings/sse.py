"""Raw server-sent events: one reply, in the format that its events tell."""

from simloop.recordings.exchanges import events_in, keys_of_reply
from simloop.recordings.files import RecordingFile
from simloop.recordings.recording import ModelCall, Recording
from simloop.wire import formats
from simloop.wire.formats.storage import Storage
from simloop.wire.formats.wire_format import WrongRequest
from simloop.world.wire_options import WireOptions

_SIGNS = {
    "openai-chat": "choices", "openai-responses": "sequence_number",
    "anthropic-messages": "type", "gemini": "candidates",
}  # fmt: skip


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the reply of a stream. Raises ScenarioError."""
    events = [*events_in(file.text)]
    for form in (make(WireOptions(), Storage()) for make in formats.FORMATS):
        if any(_SIGNS.get(form.name, "\0") in each for each in events):
            try:
                keys, message = keys_of_reply(form, form.joined(events), 200)
            except WrongRequest as wrong:
                raise file.fail(f"the stream is none of {form.name}: {wrong}") from None
            recording.records.append(ModelCall(keys, message))
            return
    raise file.fail("this has no event of a provider that simloop knows")
