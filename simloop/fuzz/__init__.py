"""The search for failures: it generates worlds, plays them, and judges each run by the invariants.

A world is settings (limits, policies, tools, hooks; drawn once for a family of a few dozen runs)
and a script (replies, faults, an abort, queued messages, further prompts; drawn for each run).

- `choices.py` is the interface of all random choices: from a seed, or from a recorded list.
- `swarm.py` disables some variants and weights the others; `Arm` names the search methods.
- `replies.py` has the replies and faults, `settings.py` draws the settings, and `scripts.py`
  combines replies to the script of a run.
- `variation.py` varies given scenarios, and `search.py` makes a trial of each world.
- `failures.py` groups the failures.
- `reductions.py` has the passes that reduce a failing scenario, `planned.py` replaces random faults
  by scripted ones, and `shrink.py` applies them.

After the faults of a script the model answers every request without a fault, and the loop must end:
a run that does not end is the failure `finishes`.
"""
