"""The pure core: the parts of a loop machine, and the policies that it follows."""
