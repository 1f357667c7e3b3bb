"""A model server with TensorFlow Serving's API. It needs only pip packages, and no TensorFlow for Python."""
