"""Warm-up requests: TensorFlow's files are read, all of them are run, and failing ones refuse the version."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from serving.server.models.warm_up import REQUESTS_FILE, _masked_crc, read_records, warm_up
from serving.server.status import Code, RequestError
from xtr_tf.runtime import SavedModelSession


@pytest.fixture(scope="module")
def records(toy_models) -> Path:
    return toy_models


@pytest.fixture
def session(toy_models, tmp_path):
    shutil.copytree(toy_models / "1", tmp_path / "1")
    (tmp_path / "1" / REQUESTS_FILE.parent).mkdir()
    with SavedModelSession(tmp_path / "1") as session:
        yield session


def test_a_model_without_requests_is_taken_as_it_is(session):
    assert warm_up(session) == 0


@pytest.mark.parametrize(("name", "count"), [("good", 3), ("empty", 0)])
def test_requests_are_run(session, records, name, count):
    shutil.copy(records / name, session.directory / REQUESTS_FILE)
    assert warm_up(session) == count


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("classify", Code.UNIMPLEMENTED, "Unsupported log_type for warmup: classify_log"),
        ("garbage", Code.INVALID_ARGUMENT, "Failed to parse warmup record from"),
        ("many", Code.INVALID_ARGUMENT, r"exceeds the maximum \(1000\)"),
    ],
)
def test_bad_requests_refuse_the_version(session, records, name, code, message):
    shutil.copy(records / name, session.directory / REQUESTS_FILE)
    with pytest.raises(RequestError, match=message) as caught:
        warm_up(session)
    assert caught.value.code is code


def test_a_request_that_the_model_refuses_refuses_the_version(session, records):
    shutil.copy(records / "refused", session.directory / REQUESTS_FILE)
    with pytest.raises(Exception, match="is not welcome"):
        warm_up(session)


def test_every_damage_to_a_record_file_is_seen(records, tmp_path):
    sound = (records / "good").read_bytes()
    assert len(list(read_records(records / "good"))) == 3
    file = tmp_path / "damaged"
    for position in range(0, len(sound), 7):
        file.write_bytes(sound[:position] + bytes([sound[position] ^ 1]) + sound[position + 1 :])
        with pytest.raises(RequestError) as caught:
            list(read_records(file))
        assert caught.value.code is Code.DATA_LOSS
    file.write_bytes(sound[:-1])
    with pytest.raises(RequestError):
        list(read_records(file))


def test_the_checksum_is_crc32c():
    crc = 0xE3069283  # of "123456789", from the standard
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert _masked_crc(b"123456789") == struct.pack("<I", masked)
