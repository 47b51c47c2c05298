"""The simulator: virtual time, seeds, fakes and the driver that runs a loop against them."""
