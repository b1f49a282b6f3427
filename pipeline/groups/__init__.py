"""The command `mbe groups`: groups of an input or of a published run, listed and shown."""
