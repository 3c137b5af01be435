"""Loss against compute, as mathematics: recipe by size, curves, multipliers, verdicts of a ladder; knows no run."""
