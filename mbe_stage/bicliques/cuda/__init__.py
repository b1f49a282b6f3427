"""Parts of the CUDA engine; importing this package needs neither numba-cuda nor a GPU."""
