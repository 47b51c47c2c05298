"""simloop."""
