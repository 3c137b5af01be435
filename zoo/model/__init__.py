"""What the network computes: positions, attention, block, stack; knows no configuration and no run."""
