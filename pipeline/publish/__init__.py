"""Published runs in a directory: writing them atomically, their manifest, reading and listing them."""
