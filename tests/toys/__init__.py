"""Problems written only for the tests of the seams; CONTRIBUTING shows them as examples."""
