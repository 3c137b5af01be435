"""From a corpus to batches."""
