"""Where a pipeline runs: `local` on this machine, `vertex` on Vertex AI Pipelines."""
