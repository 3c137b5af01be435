"""What is known of each method: card, settings, cost at a size, status; and a project for a new one."""
