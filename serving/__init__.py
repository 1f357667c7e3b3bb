"""A model server with TensorFlow Serving's API, clients, and configuration for TensorFlow Serving itself."""
