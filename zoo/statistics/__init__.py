"""What seeds say of arms: the model, its variances, tests, intervals, power, planned looks; knows nothing of the zoo."""
