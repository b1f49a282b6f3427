"""Threads of a search on the host: a pool that shares the work, in time quanta."""
