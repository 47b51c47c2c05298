"""The search for failures: it generates worlds, and makes a trial of each.

A world is settings (limits, policies, tools, hooks; drawn once for a family of ten runs) and a
script (replies, faults, an abort, queued messages, further prompts; drawn for each run).

- `choices.py` is the interface of all random choices. `alphabet.py` draws the settings,
  `replies.py` has the replies, and `worlds.py` draws the script or varies that of a scenario.
- `search.py` makes the trials, `failures.py` groups their failures, and `goals.py` counts the rare
  situations that were reached.
- `executor.py` plays ranges of worlds in processes or on a cluster, and keeps their results.
  `processes.py` plays a world again in another process.
- `shrink.py` reduces a failing scenario by the passes of `reductions.py`; `planned.py` replaces
  random faults by scripted ones.

After the faults of a script the model answers every request without a fault, and the loop must end:
a run that does not end is the failure `finishes`.
"""
