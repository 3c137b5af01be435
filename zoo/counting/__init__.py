"""Parameters and FLOPs of a model without running it, and the plain model that matches them."""
