"""Trained weights and their use; never imports `sevnet_jax.data`'s pipeline."""
