"""Sessions of Claude Code, made line by line."""

from typing import Any

from sessions import at, lines


class Lines:
    """The lines of a session: each goes on from the one before, two seconds later."""

    def __init__(self, **common: Any) -> None:
        self.all: list[dict[str, Any]] = []
        self._common = {"sessionId": "s1", "isSidechain": False, **common}

    def add(self, kind: str, after: str | None = None, **keys: Any) -> "Lines":
        number = len(self.all) + 1
        parent = after or (self.all[-1]["uuid"] if self.all else None)
        head = {"type": kind, "uuid": f"{self._common['sessionId']}-{number}"}
        line = {**head, "parentUuid": parent, "timestamp": at(2 * number), **self._common, **keys}
        self.all.append(line)
        return self

    def user(self, content: Any, **keys: Any) -> "Lines":
        return self.add("user", message={"role": "user", "content": content}, **keys)

    def result(self, call_id: str, text: Any, *, failed: bool = False, **keys: Any) -> "Lines":
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": failed}
        return self.user([block], **keys)

    def reply(self, name: str, *blocks: Any, stop: str | None = None, **keys: Any) -> "Lines":
        made = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        usage = {"input_tokens": 3, "output_tokens": len(self.all)}
        message = {"id": name, "model": "claude-x", "content": made, "stop_reason": stop}
        return self.add("assistant", message={**message, "usage": usage}, **keys)

    def failed(self, error: Any, wait_ms: float = 500, **keys: Any) -> "Lines":
        told = {"subtype": "api_error", "error": error, "retryInMs": wait_ms, "retryAttempt": 1}
        return self.add("system", **told, **keys)

    def gave_up(self, text: str, **keys: Any) -> "Lines":
        message = {"id": text, "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
        return self.add("assistant", isApiErrorMessage=True, message=message, **keys)

    @property
    def text(self) -> str:
        return lines(*self.all)


def call(name: str, call_id: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def with_a_sub_agent() -> tuple[Lines, Lines]:
    made = Lines().user("Ask.").reply("m1", call("Task", "t1", prompt="Find it."))
    made.result("t1", "It is here.").reply("m2", call("Bash", "t2")).result("t2", "own")
    made.reply("m3", "Found.")
    sub = Lines(isSidechain=True, agentId="a7").user("Find it.").reply("n1", call("Bash", "t3"))
    sub.result("t3", "of the sub-agent").reply("n2", call("Grep", "t4")).result("t4", "grepped")
    sub.reply("n3", "It is here.")
    for line in sub.all:
        line["uuid"], line["parentUuid"] = f"a{line['uuid']}", f"a{line['parentUuid']}"
    return made, sub
