"""The oracle: the engine's twin, as invariants, which judges every run of the tests.

A user of simloop can break none of them, but for those that `simloop explore` shows of a machine.
`simloop_invariants` in pyproject.toml adds them, as it would add those of any project. The ledger
comes first, because the others look at it.
"""

# ruff: noqa: F403 - an invariant is found by being in the module
from oracle.ledger import *  # isort: skip
from oracle.grammar import *  # isort: skip
from oracle.context import *  # isort: skip
from oracle.signals import *  # isort: skip
from oracle.times import *  # isort: skip
from oracle.calls import *  # isort: skip
from oracle.designs import *  # isort: skip
from oracle.hooks import *  # isort: skip
from oracle.hook_effects import *  # isort: skip
from oracle.retry import *  # isort: skip
from oracle.machines import *  # isort: skip
from oracle.ends import *  # isort: skip
from oracle.twins import *  # isort: skip
