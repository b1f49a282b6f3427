"""Cases of published runs: read, decided on, exported and reported to other systems."""
