"""Llama checkpoints as transformers writes them: sizes and weights, theirs as ours and ours as theirs; knows no model."""
