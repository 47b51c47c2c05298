"""Every fault of the benchmark."""

import of_context
import of_designs
import of_hooks
import of_limits
import of_managed
import of_model_calls
import of_parallel
import of_reference
import of_runs
import of_sequential
import of_tools
import of_waits

FAULTS = (
    *of_reference.FAULTS,
    *of_designs.FAULTS,
    *of_waits.FAULTS,
    *of_model_calls.FAULTS,
    *of_context.FAULTS,
    *of_runs.FAULTS,
    *of_limits.FAULTS,
    *of_tools.FAULTS,
    *of_hooks.FAULTS,
    *of_sequential.FAULTS,
    *of_parallel.FAULTS,
    *of_managed.FAULTS,
)
