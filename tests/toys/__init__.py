"""Problems for the tests of extension points; CONTRIBUTING shows them as examples."""
