"""A live recording: the agent asks a real server once, and its scenario then runs without it."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chatting import asked

from simloop import Scenario, load_scenario, run
from simloop.errors import RunawayRun, ScenarioError
from simloop.recordings import live
from simloop.recordings.live import record_live
from simloop.scenario.writing import scenario_text

KEY = "sk-abcdefghijklmnopqrstu"
CALL: dict[str, Any] = {"id": "call_7", "type": "function"}
CALL |= {"function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
REPLIES = (
    (429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}),
    (200, {"role": "assistant", "content": None, "tool_calls": [CALL]}),
    (200, {"role": "assistant", "content": f"Sunny, and {KEY} is no secret."}),
)


class _Provider(http.server.BaseHTTPRequestHandler):
    """A provider with three replies, and a service."""

    asked: list[str]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send(200, {"degrees": 31})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.asked.append(str(self.headers["authorization"]))
        status, said = REPLIES[(len(self.asked) - 1) % len(REPLIES)]
        choice: dict[str, Any] = {"index": 0, "message": said, "finish_reason": None}
        choice["finish_reason"] = "tool_calls" if said.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 5, "completion_tokens": 2}
        self._send(status, said if status != 200 else {"choices": [choice], "usage": usage})

    def _send(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("retry-after", "1")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def provider() -> Iterator[type[_Provider]]:
    handler: Any = type("Provider", (_Provider,), {"asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        handler.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield handler
        server.shutdown()
        thread.join()


def agent_at(url: str, most: int = 6) -> Any:
    def agent(prompt: str) -> str:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        for _ in range(most):
            body = {"model": "gpt-5", "messages": messages}
            chat = f"{url}/v1/chat/completions"
            status, text = asked(chat, body, authorization=f"Bearer {KEY}")
            if status == 429:
                continue
            said = json.loads(text)["choices"][0]["message"]
            if not said.get("tool_calls"):
                return str(said["content"])
            degrees = json.loads(asked(f"{url}/weather?city=Rome")[1])["degrees"]
            result = {"role": "tool", "tool_call_id": "call_7", "content": str(degrees)}
            messages += [said, result]
        return "no answer"

    return agent


def test_a_recorded_run_goes_as_it_went_without_its_provider(provider: Any, tmp_path: Path) -> None:
    agent = agent_at(provider.url)
    whole, comment, recording = record_live(
        Scenario(prompt="Is it warm?"), "case", {"loop": agent}, services=True
    )
    assert provider.asked == [f"Bearer {KEY}"] * 3  # the real key went out
    file = tmp_path / "case.simloop.yaml"
    file.write_text(scenario_text(whole, comment))
    assert KEY not in file.read_text()
    assert recording.removed == {"key": 1}
    result = run(load_scenario(file), loop=agent)  # fails if a request differs from a recorded one
    assert result.text == "Sunny, and REMOVED is no secret."
    assert len(result.requests) == 3
    assert len(provider.asked) == 3


def test_without_services_only_requests_to_the_model_go_out(provider: Any) -> None:
    whole, _, _ = record_live(
        Scenario(prompt="Is it warm?"), "case", {"loop": agent_at(provider.url)}, services=False
    )
    assert not whole.services
    assert len(whole.model) == 2  # the agent failed where the service was refused


def test_a_scenario_with_a_script_is_not_recorded_again(provider: Any) -> None:
    scenario = Scenario(prompt="Hi", model=[{"say": "Hello."}])
    with pytest.raises(ScenarioError, match="it has a script of the model already"):
        record_live(scenario, "case", {"loop": agent_at(provider.url)}, services=False)
    assert provider.asked == []


def test_an_endless_agent_is_stopped(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_REQUESTS", 4)
    endless = {"loop": lambda prompt: [agent_at(provider.url)(prompt) for _ in range(99)]}
    with pytest.raises(RunawayRun, match="passed 4 real requests"):
        record_live(Scenario(prompt="Hi"), "case", endless, services=True)  # type: ignore[arg-type]
