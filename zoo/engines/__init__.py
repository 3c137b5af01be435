"""Runs on other machines: engines that start processes and may lose them, while what is known stays in folders."""
