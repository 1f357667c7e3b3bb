"""The version of the distribution, read by setuptools, the command line and model cards."""

__version__ = "0.1.0"
