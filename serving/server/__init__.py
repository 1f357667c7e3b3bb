"""A model server with TensorFlow Serving's API, made of pip packages only, without Python TensorFlow."""
