"""Test collections with one interface, whatever their files: `load_datasets` gives `Dataset`s."""

from xtr_tf.evaluation.datasets.dataset import Dataset as Dataset
from xtr_tf.evaluation.datasets.loading import load_datasets as load_datasets
from xtr_tf.evaluation.datasets.query import Query as Query
