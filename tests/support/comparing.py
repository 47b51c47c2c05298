"""Scenarios for `simloop compare`."""

LOOKS = """\
title: It looks
prompt: Hi
tools: {look: {returns: found, takes: 120ms}}
model: [{say: Let me look., call: {look: {}}}, {say: Found.}]
expect: {outcome: completed, text: Found.}
"""
FAILS = LOOKS.replace("text: Found.", "text: Lost.")
BROKEN_SERVER = """\
title: A server error
prompt: Hi
model: [{http: {status: 500}}, {say: Hello.}]
expect: {outcome: completed, text: Hello.}
expect_on:
  pi: {outcome: failed, unused: 1}
  react: {outcome: failed, unused: 1}
"""
HOOKED = "title: Hooked\nprompt: Hi\nhooks: [{at: before_llm_call}]\nmodel: [{say: Hello.}]\n"
COMPACTS = """\
prompt: Hi
compaction: {window: 1000, keep_turns: 1}
tools: {dump: {returns_chars: 1500}}
model: [{call: {dump: {}}, times: 2}, {say: The same.}]
summaries: [{say: Nothing but x.}]
"""
HOSTILE = '"\\e[2J\\0\\a\\r\\u202Ex\\x9b1m\\uFFFE<script>&\\"é"'
