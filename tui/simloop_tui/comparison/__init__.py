"""Two runs side by side: what is compared, and the screen that shows it."""
