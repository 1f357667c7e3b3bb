"""Trains an encoder with in-batch token retrieval, on one device or many."""
