"""The operating system and fairseq2 as the zoo needs them; knows nothing of the zoo."""
