"""Who does the tasks of a problem: this process, and others later."""
