"""The search for bugs: it generates worlds, plays them, and judges each run by the invariants.

A world is settings (limits, policies, tools, hooks; drawn once for a family of a few dozen runs)
and a script (replies, faults, an abort, queued messages, further prompts; drawn for each run).

- `choices.py` is the interface through which everything is drawn: a seed, or a recorded list.
- `swarm.py` switches variants off and weighs the others; `Arm` names the ways to search.
- `replies.py` is the alphabet of replies and faults, `settings.py` that of settings, and
  `scripts.py` puts replies together to the script of a run.
- `families.py` makes the worlds, new or from given scenarios; `play.py` plays and judges one.
- `coverage.py` says what a run reached, and `search.py` is the loop that steers by it.
- `failures.py` groups the failures and writes each as a scenario.
- `failing.py` says how a scenario fails, `reductions.py` has the passes that make it smaller,
  `planned.py` replaces faults of chance, and `shrink.py` applies them.
- `difference.py` compares two loops in one world, by what both leave at the boundary.

After the faults of a script the model answers every request well, and the loop must come to an end:
a run that does not breaks the rule `finishes`.
"""
