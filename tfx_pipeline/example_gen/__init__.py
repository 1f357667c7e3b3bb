"""ExampleGen for what retrieval is trained and served from: judged queries, and documents."""
