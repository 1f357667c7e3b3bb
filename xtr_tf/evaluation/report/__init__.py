"""The report of an evaluation: one content, written as JSON, as Markdown and as one HTML page."""
