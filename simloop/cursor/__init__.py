"""The facts at one entry of a trace: the replayer's terminal, page and text show these and no more.

Not here: showing them (cli, simloop_tui). The rule to keep: a fact comes from the entries up to the
cursor and from the declarations of the loop, so that it is true at that point of the run; and to
find it takes no longer in a long trace.
"""
