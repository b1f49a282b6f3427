"""`mbe explore`: a local page over the tables of a published run."""
