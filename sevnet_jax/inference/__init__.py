"""Trained weights and their use. Never imports the training pipeline."""
