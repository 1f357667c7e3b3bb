"""Evaluation: datasets, metrics, baselines, token analysis and the report that shows them.

Nothing is imported here: `xtr_tf.evaluation.datasets` and the metrics need no TensorFlow.
"""
