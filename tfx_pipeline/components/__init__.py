"""The pipeline's own components: one a file, each with its specification and its executor."""
