"""The pipeline's own components: one per file, with its specification and its executor."""
