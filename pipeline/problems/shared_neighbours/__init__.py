"""Shared neighbours in the pipeline: the section, the tables, and the collector."""
