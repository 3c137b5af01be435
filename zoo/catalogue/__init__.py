"""What is known about each method: card, settings, cost at a size, status; and a project for a new one."""
