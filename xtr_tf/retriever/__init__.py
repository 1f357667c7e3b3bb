"""The retriever, its export, and the gate that an export must pass.

Tokenizer, encoder, token search, scoring and documents are one module, which becomes one SavedModel.
"""
