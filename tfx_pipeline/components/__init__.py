"""The pipeline's own components: one per file, each with its specification and its executor."""
