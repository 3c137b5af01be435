"""Loss against compute, as mathematics: curves, multipliers, verdicts of a ladder; knows no run."""
