"""Clean images in, noisy batches out. Only `pipeline` imports TensorFlow."""
