"""One module per command of zoo-data: its HELP, its arguments, and `run`, which returns the exit code."""
