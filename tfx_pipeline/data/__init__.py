"""Data of the pipeline: ExampleGen for judged queries and documents, splits, and data checks."""
