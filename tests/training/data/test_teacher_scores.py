"""A teacher's scores, read from a separate file."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.sampling import TrainingData
from xtr_tf.training.data.sources import open_source


@pytest.fixture
def source(tmp_path):
    """Two queries with one positive and two negatives each; the negatives have scores of their own."""
    records = [
        {
            "id": f"q{i}",
            "query": f"query {i}",
            "positives": [{"id": "p", "text": f"positive {i}"}],
            "negatives": [{"id": f"n{j}", "text": f"negative {i} {j}", "score": 5} for j in range(2)],
        }
        for i in range(2)
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, records)))
    return SourceConfig(path=str(tmp_path / "train.jsonl"), teacher_scores=str(tmp_path / "scores.tsv"))


def test_scores_are_matched_by_id_and_override_those_in_the_data(source, tmp_path):
    lines = ["query-id\tcorpus-id\tscore", "q0\tp\t9.5", "q0\tn1\t-2", "q1\tother\t3", "q2\tp\t1"]
    (tmp_path / "scores.tsv").write_text("\n".join(lines))
    (opened,) = open_source(source, BadRecords(limit=0))
    assert len(opened) == 2
    assert opened[0].teacher_scores == (9.5, 5, -2)
    assert math.isnan(opened[1].teacher_scores[0])
    assert opened[1].teacher_scores[1:] == (5, 5)
    data = TrainingData(DataConfig(train=(source,), hard_negatives=1), seed=0)
    batch = data.batch(0, 2)
    row = list(batch.queries).index(b"query 0")
    assert batch.teacher_scores[row, 0] == 9.5
    assert batch.teacher_scores[row, 1] in (5, -2)
    assert np.isnan(batch.teacher_scores[1 - row, 0])


def test_scores_that_match_no_example_are_refused(source, tmp_path):
    with pytest.raises(InputError, match=r"does not exist; check `teacher_scores`.*scores\.tsv"):
        open_source(source, BadRecords(limit=0))
    (tmp_path / "scores.tsv").write_text("q7\tp\t1\nq0\tp7\t1\n")
    with pytest.raises(InputError, match=r"compare the ids\. Received: .*scores\.tsv"):
        open_source(source, BadRecords(limit=0))


def test_a_line_without_a_score_is_a_bad_record(source, tmp_path):
    (tmp_path / "scores.tsv").write_text("q0\tp\t1\nq0\tn0\thigh\nq0\tn1\tnan\n")
    bad_records = BadRecords(limit=5)
    (opened,) = open_source(source, bad_records)
    assert opened[0].teacher_scores == (1, 5, 5)
    with pytest.raises(InputError, match="the score is not a number"):
        open_source(source, BadRecords(limit=0))
