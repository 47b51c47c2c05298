"""The pure core: what a loop machine is made of, and the policies it is told to follow."""
