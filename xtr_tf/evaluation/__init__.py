"""Evaluation of encoders and exported models on judged datasets.

| file | |
|---|---|
| `evaluate.py` | a whole evaluation, from paths to the folder of a report |
| `evaluator.py` | settings, and one dataset: the model, its baselines, their values |
| `encoder_model.py`, `exported_model.py` | the two kinds of models under test |
| `encoded.py`, `exact.py` | tokens in memory, searched without approximation |
| `run.py`, `metrics.py`, `baselines.py` | rankings, their values by query, BM25 |
| `token_analysis.py`, `worked_examples.py` | the paper's analysis of which tokens are retrieved |
| `results.py`, `summary.py`, `statistics.py` | what was measured, its tables, their intervals and tests |
| `report/` | the report as JSON, Markdown and HTML |

Nothing is imported here, and only `encoder_model.py` needs TensorFlow.
"""
