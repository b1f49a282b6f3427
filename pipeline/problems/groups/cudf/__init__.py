"""Groups from blocks of bicliques in device memory; of cuDF itself only the backend knows."""
