"""Arithmetic that saves memory or time; each function equals its one-line formula."""
