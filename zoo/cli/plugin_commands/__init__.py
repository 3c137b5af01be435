"""One module per command of zoo-plugins: its HELP, its arguments, and `run`, which returns the exit code."""
