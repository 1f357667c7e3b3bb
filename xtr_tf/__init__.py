"""XTR multi-vector retrieval in TensorFlow."""

from xtr_tf.version import __version__ as __version__
