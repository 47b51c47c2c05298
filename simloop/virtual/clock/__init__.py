"""How virtual time works.

A simulation has one clock: an integer, the nanoseconds since the start of the run. It stands still
while code runs, so a computation takes no time. When nothing is ready to run, the event loop
(loop.py) moves the clock to the next timer and runs its callbacks. An hour of backoff is one step.

What happens next depends on the program and the seed alone. Callbacks run in first-in, first-out
order, as asyncio promises. Timers of one instant fire in the order in which they were set, or in an
order drawn from the seed if ties are shuffled. Instants are integers, because sums of doubles would
differ from what was meant: `sleep(0.1)` three times and `sleep(0.3)` end in one instant. Nothing
asks for an address, the order of a set, garbage collection, wall time or another thread. So tasks
count in each run and hash by their number (tasks.py), a task that a `__del__` starts is dropped,
and an asynchronous generator that is collected late is closed at the end of its own run.

Code can also block: `time.sleep` in a coroutine, a lock in a thread. In the loop's own thread, a
blocking wait moves the clock within the running callback, and no other callback runs meanwhile, as
in Python. Every other thread is a simulated one (the package `threads`): it runs alone, in its
turn, and a blocking wait parks it until a timer of this clock or another thread wakes it.

A program that waits for the real world would wait for ever, so each way there is answered from the
clock and the seed, or refused (the package `border`). Three things end a program that does not end
by itself: a Deadlock if nothing can run and no timer is set; a RunawayRun if the clock passes its
bound, ten years; and a RunawayRun if callbacks run, or the clock is read, without anything new
(progress.py). Each names where the tasks and threads wait.

At the end of a run nothing is left that a later run would meet: tasks are cancelled once and run to
their ends, threads for which Python would wait come to their ends and others are ended where they
are parked, and generators are closed. Code that refuses is ended where it waits, and reported. Then
the loop is as new, and the next run uses it again, which costs less than to make one.

The loop knows the packages above by what they hang on it, and they ask it which run the calling
code belongs to (`loop_here`). A listener (listener.py) hears of the program's sleeps, blocking
calls and cancellations, for the trace; waits.py finds what a program waits for, for the replayer.
"""
