"""A trained run opened again, and text from it."""
