"""Find, load and classify the methods that distributions offer; imports no torch."""
