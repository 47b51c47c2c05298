"""The border of a simulation: what code of a program finds in the place of the machine."""
