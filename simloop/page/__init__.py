"""The replayer as one HTML page, for a browser and for a CI job that keeps artifacts.

Not here: the facts and their wording (cursor). The rule to keep: the page computes no fact. It
shows the rows of the views, and all text in it is text: none of it becomes markup or a script.
"""
