"""A model server with TensorFlow Serving's API, on pip packages alone and without Python TensorFlow."""
