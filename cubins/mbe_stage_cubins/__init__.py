"""The CUDA kernels of `mbe-stage` as machine code: data that `mbe_stage.device.cubins` reads."""
