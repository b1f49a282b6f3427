"""Blocks of bicliques in device memory to the published tables; of cuDF itself only the backend knows."""
