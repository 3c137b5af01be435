"""What `import zoo` offers to scripts and notebooks: build, train, load, generate, evaluate, compare."""
