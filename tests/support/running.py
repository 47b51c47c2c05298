"""`simloop run`, and the scenarios that it is given."""

from click.testing import CliRunner, Result

from simloop.cli import main

PASSES = """\
title: It answers
prompt: Hi
model: [{say: Hello.}]
expect: {outcome: completed, text: Hello.}
"""
FAILS = PASSES.replace("text: Hello.", "text: Bye.")
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"


def run(*arguments: str) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["run", *arguments])
