"""The TFX pipeline: from data to a blessed, pushed version of a retriever.

`pipeline.py` defines the DAG, `components/` its own components, and `runners/` the places it can run.
Importing this package does not import TFX. Importing its modules does.
"""
