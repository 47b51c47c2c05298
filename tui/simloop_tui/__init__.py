"""The replayer: it steps through a recorded run in a terminal.

The session decides where the cursor goes, and works without Textual; screens and widgets show.
"""
