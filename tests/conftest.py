"""Fixtures that several test files share."""

from fake_project import project

__all__ = ["project"]
