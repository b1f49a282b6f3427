"""Problems and derived outputs, as the pipeline publishes them."""
