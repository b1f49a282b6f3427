"""Groups: the short, ranked list that all maximal bicliques come down to; arrays in, arrays out."""
