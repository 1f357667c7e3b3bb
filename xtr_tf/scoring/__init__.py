"""From token hits to documents: f_XTR' and f_ColBERT, in TensorFlow for serving and in NumPy for checks."""
