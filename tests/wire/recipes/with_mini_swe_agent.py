"""The agent of mini-swe-agent, which runs commands in a shell."""

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel


def agent(task: str) -> str:
    made = DefaultAgent(
        LitellmModel(model_name="openai/gpt-4o"),
        LocalEnvironment(),
        system_template="You solve tasks.",
        instance_template="{{task}}",
    )
    return str(made.run(task)["submission"])
