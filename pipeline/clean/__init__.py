"""Cleaning of raw rows to edges: one set of rules, counts and messages for every backend.

Every function may raise the errors of `pipeline.clean.cleaning.clean`.
"""
