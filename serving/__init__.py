"""Serving: a model server with TensorFlow Serving's API, clients, and files for TensorFlow Serving itself."""
