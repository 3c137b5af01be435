"""Llama checkpoints as transformers writes them: sizes and weights, converted both ways; knows no model."""
