"""Timings compared with published programs: ``make bench``; see README.md."""
