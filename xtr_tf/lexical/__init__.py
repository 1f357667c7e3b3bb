"""Words: what the terms of a text are, as strings (`terms.py`) and as numbers (`keys.py`)."""
