"""The configuration of a run: models, sections, YAML, and the names of settings."""
