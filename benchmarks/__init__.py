"""Times beside the published programs': ``make bench``; see README.md."""
