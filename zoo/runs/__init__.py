"""The files that a run writes, and how they are read back."""
