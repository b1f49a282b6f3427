"""Searches that several problems share."""
