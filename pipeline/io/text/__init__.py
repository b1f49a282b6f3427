"""Readers of text files: delimiters, headers, and the formats made of lines."""
