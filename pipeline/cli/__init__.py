"""The command line `mbe`: its commands, options, help, and what it prints."""
