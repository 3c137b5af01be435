"""A run for transformers: weights, tokenizer and card in a folder of Hugging Face, and the class that loads a method."""
