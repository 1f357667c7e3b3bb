"""The terms of a text, as strings (`terms.py`) and as numbers (`keys.py`)."""
