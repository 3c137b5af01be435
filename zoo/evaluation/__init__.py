"""Runs on tasks in files: scores per item, paired over items and seeds."""
