"""The world: all that an agent may touch, and nothing else."""

from typing import Any

from msgspec import Struct

from simloop.world.model_port import ModelPort
from simloop.world.tools_port import ToolsPort
from simloop.world.user_port import UserPort


class World(Struct, frozen=True):
    """The model, the tools and the user of one conversation. Each records what passes through it.

    reply = await world.model.reply(messages, tools=world.tools.specs)
    result = await world.tools.run(call)
    messages += [UserMessage(text) for text in world.user.take()]
    """

    model: ModelPort
    tools: ToolsPort
    user: UserPort
    provider: Any = None
    """The endpoint, which answers the agent's requests over HTTP (wire)."""

    def __post_init__(self) -> None:
        """Let the native client end an agent that is to stop before it begins anything new."""
        self.model.turn = self.tools.turn = self.user.turn
