"""The replayer: it steps through a recorded run in a terminal.

Not here: the facts at an entry (simloop.cursor). The rule to keep: session.py decides where the
cursor goes, and it works without Textual; screens and widgets show, and decide nothing.
"""
