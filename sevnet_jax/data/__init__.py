"""Noise models, image sources, training batches. Only `pipeline` imports TensorFlow."""
