"""Views of published runs and of inputs: top, export, comparison, diff, inspect."""
