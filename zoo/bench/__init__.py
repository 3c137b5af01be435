"""Which runs a comparison needs, running them, and the store they end in."""
