"""`simloop run --weather`: a scenario under named faults, with many seeds."""

from pathlib import Path

import pytest
from commandline import Cli

from simloop.errors import ScenarioError
from simloop.scenario.schema import Scenario
from simloop.world.chance import SITES, chance_of_weather
from simloop.world.faults import WEATHERS

RECORDED = """\
prompt: Look.
tools: {look: {answers: [{returns: a tree}, {returns: a bird}]}}
model:
  - call: {look: {}}
  - call: {look: {}}
  - say: A tree and a bird.
expect:
  text: A tree and a bird.
  sent: [user, user assistant tool, user assistant tool assistant tool]
"""
HASTY = """\
from simloop import ModelCallFailed, UserMessage

async def hasty(prompt, world):
    messages = [UserMessage(prompt)]
    for _ in range(30):
        try:
            reply = await world.model.reply(messages, tools=world.tools.specs)
        except ModelCallFailed:
            continue
        messages.append(reply.message)
        if not reply.message.calls:
            return reply.message.text
        messages += [await world.tools.run(call) for call in reply.message.calls]
"""


@pytest.fixture
def case(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    cli.file("hasty_agent.py", HASTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return cli.write("case", RECORDED)


def test_the_table_counts_the_ends_of_each_weather(cli: Cli, case: str) -> None:
    shown = cli("run", case, "--weather", "cut,slow-tools+slow", "--seeds", "6")
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[0][:2] == ["weather", "completed"]
    assert [line[0] for line in lines[1:]] == ["cut", "slow-tools+slow"]
    assert all(sum(map(int, line[1:-2])) == 6 for line in lines[1:])
    assert all(line[-2:] == ["0", "-"] for line in lines[1:])


def test_the_first_failing_seed_has_a_command_that_shows_it(cli: Cli, case: str) -> None:
    shown = cli("run", case, "--loop", "hasty_agent:hasty", "--weather", "rate-limit")
    assert shown.exit_code == 1
    (run_it,) = (line for line in shown.stdout.splitlines() if "run it: " in line)
    command = run_it.partition("run it: simloop ")[2].split()
    again = cli(*command)
    assert again.exit_code == 1
    assert "retry-after-respected" in shown.stdout
    assert "retry-after-respected" in again.output
    assert "A tree and a bird." in again.stdout, "its timeline is shown"


def test_expectations_on_words_are_dropped_and_upper_bounds_are_kept(cli: Cli, case: str) -> None:
    bounded = cli.write("bounded", RECORDED + "  requests: {max: 3}\n")
    shown = cli("run", bounded, "--weather", "overload", "--seeds", "20")
    assert shown.exit_code == 1
    assert "expectation: expect.requests: expected at most 3, got" in shown.stdout
    assert cli("run", case, "--weather", "overload", "--seeds", "20").exit_code == 0


def test_json_and_a_page_have_the_first_failure(cli: Cli, case: str) -> None:
    given = ("run", case, "--loop", "hasty_agent:hasty", "--weather", "rate-limit")
    document = cli.json(*given, "--html", "page.html")
    (row,) = document["weathers"]
    assert document["status"] == "failed"
    assert row["runs"] == sum(row["outcomes"].values()) == 50
    assert row["failed"] > 0
    assert row["first"]["name"] == "retry-after-respected"
    assert "<html" in Path("page.html").read_text("utf-8")


def test_without_a_failure_no_page_is_written(cli: Cli, case: str) -> None:
    shown = cli("run", case, "--weather", "slow", "--seeds", "2", "--html", "page.html")
    assert "no page: no run fails" in shown.stderr
    assert not Path("page.html").exists()


def test_an_unknown_weather_is_told_with_the_list(cli: Cli, case: str) -> None:
    shown = cli("run", case, "--weather", "rate-limit,fog")
    assert shown.exit_code == 2
    assert "no weather `fog`" in shown.stderr
    assert "slow-tools" in shown.stderr


@pytest.mark.parametrize("wrong", [("--seeds", "3"), ("--html", "x"), ("--weather", "cut", "b")])
def test_options_that_do_not_fit_are_refused(cli: Cli, case: str, wrong: tuple[str, ...]) -> None:
    assert cli("run", case, *wrong).exit_code == 2


def test_a_weather_has_sites_of_the_catalogue_and_takes_part_in_each_run() -> None:
    assert {site for sites in WEATHERS.values() for site in sites} <= set(SITES)
    chance = chance_of_weather("cut+model.stall")
    assert chance.sites == (*WEATHERS["cut"], "model.stall")
    assert chance.activate == 1
    with pytest.raises(ScenarioError, match="no weather"):
        chance_of_weather("")


def test_the_properties_of_expectations_are_their_upper_bounds_and_known_violations() -> None:
    expect = Scenario.model_validate(
        {
            "prompt": "Go.",
            "expect": {
                "text": "Done.", "outcome": "completed", "calls": [], "sent": ["user"],
                "elapsed": {"min": "1s", "max": "9s"}, "requests": {"min": 1},
                "counters": {"total_steps": {"max": 4}, "error_count": 0},
                "violates": {"finishes": "known"},
            },
        }
    ).expect  # fmt: skip
    assert expect.properties.model_dump(mode="json", exclude_defaults=True) == {
        "elapsed": {"max": "9s"},
        "counters": {"total_steps": {"max": 4}},
        "violates": {"finishes": "known"},
    }
