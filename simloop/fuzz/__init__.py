"""The search for failures: it generates worlds, and makes a trial of each.

- `choices.py` is the interface of all random choices. `alphabet.py` has the replies and draws the
  settings, and `worlds.py` draws the script or varies that of a scenario.
- `search.py` makes the trials and groups their failures; `goals.py` counts rare situations.
- `executor.py` plays ranges of worlds in processes, and keeps their results.
  `processes.py` plays a world again in another process.
- `shrink.py` reduces a failing scenario by the passes of `reductions.py`.
"""
