"""From Gin files and --set to one checked configuration."""
