"""From a store to evidence: verdicts, tables, figures, claims, pages."""
