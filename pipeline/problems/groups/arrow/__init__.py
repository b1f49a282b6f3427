"""Groups from blocks of bicliques in host memory."""
