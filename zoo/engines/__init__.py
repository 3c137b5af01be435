"""Runs on other machines: engines that start processes and may lose them, while all results stay in folders."""
