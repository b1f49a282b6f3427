"""From rows as read to clean edges: one set of rules, counts and messages for every backend."""
