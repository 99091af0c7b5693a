"""Stands for the code that some checkpoints carry."""
