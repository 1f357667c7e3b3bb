"""Which server of a partition is asked: the least busy one, another if it fails, a second if it is slow."""

from __future__ import annotations

import asyncio
import contextlib
import time

import grpc
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from serving.server.collection.addresses import Address, read_addresses
from serving.server.collection.metrics import PartitionMetrics
from serving.server.collection.partition import Latencies, Partition
from serving.server.collection.replica import Replica, ServedVersion
from serving.server.protos import PREDICTION_SERVICE, predict_pb2
from serving.server.status import Code, RequestError
from serving.server.tensor_protos import fill_proto
from xtr_tf.errors import InputError

VERSION = 7


class Scripted:
    """A real gRPC server on a free port that answers `Predict` with its name, when and how it is told to."""

    def __init__(self, name):
        self.name, self.delay, self.failure, self.calls, self.versions = name, 0.0, None, 0, []

    async def predict(self, raw, context):
        self.calls += 1
        self.versions.append(predict_pb2.PredictRequest.FromString(raw).model_spec.version.value)
        if self.failure is not None:
            await context.abort(self.failure, f"{self.name} fails")
        await asyncio.sleep(self.delay)
        response = predict_pb2.PredictResponse()
        fill_proto(response.outputs["name"], np.array([self.name.encode()], object))
        return response.SerializeToString()

    async def start(self):
        self.server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(self.predict)
        service = grpc.method_handlers_generic_handler(PREDICTION_SERVICE, {"Predict": handler})
        self.server.add_generic_rpc_handlers((service,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()


@contextlib.asynccontextmanager
async def partition_of(*servers):
    replicas = []
    for server in servers:
        await server.start()
        replica = Replica(Address(f"127.0.0.1:{server.port}"))
        replica.versions[VERSION] = ServedVersion(True, "")
        replica.proved.add(VERSION)
        replicas.append(replica)
    registry = CollectorRegistry()
    try:
        yield Partition(3, replicas, PartitionMetrics(registry)), registry
    finally:
        for replica, server in zip(replicas, servers, strict=True):
            await replica.close()
            await server.server.stop(0)


async def ask(partition, seconds=5.0):
    answer = await partition.ask("any", {"query": np.array([b"q"], object)}, ["name"], VERSION, seconds)
    return answer["name"][0].decode()


def test_every_call_names_its_version_and_goes_to_the_least_busy():
    async def run():
        slow, quick = Scripted("slow"), Scripted("quick")
        slow.delay = quick.delay = 0.2
        async with partition_of(slow, quick) as (partition, _):
            await asyncio.gather(*(ask(partition) for _ in range(6)))
            assert (slow.calls, quick.calls) == (3, 3)
            assert set(slow.versions) == {VERSION}
            assert partition.outstanding == 0

    asyncio.run(run())


def test_another_server_answers_for_one_that_fails():
    async def run():
        broken, sound = Scripted("broken"), Scripted("sound")
        broken.failure = grpc.StatusCode.UNAVAILABLE
        async with partition_of(broken, sound) as (partition, _):
            assert {await ask(partition) for _ in range(20)} == {"sound"}
            # After its first failure it is left alone for a while.
            assert broken.calls <= 2
            sound.failure = grpc.StatusCode.RESOURCE_EXHAUSTED
            with pytest.raises(RequestError, match=r"^Partition 3 did not answer: \w+ fails\.$") as error:
                await ask(partition)
            assert error.value.code == Code.UNAVAILABLE

    asyncio.run(run())


def test_a_request_that_is_refused_is_asked_once():
    async def run():
        first, second = Scripted("first"), Scripted("second")
        first.failure = second.failure = grpc.StatusCode.INVALID_ARGUMENT
        async with partition_of(first, second) as (partition, _):
            with pytest.raises(RequestError, match="fails") as error:
                await ask(partition)
            assert error.value.code == Code.INVALID_ARGUMENT
            assert first.calls + second.calls == 1

    asyncio.run(run())


def test_a_second_server_is_asked_when_the_first_is_slow():
    async def run():
        first, second = Scripted("first"), Scripted("second")
        async with partition_of(first, second) as (partition, registry):
            for _ in range(40):
                await ask(partition)
            first.delay = 3.0
            started, answers, hedges = time.monotonic(), [], None
            # Which server is asked first is drawn, and six draws can leave the slow one out.
            while len(answers) < 6 or (hedges is None and len(answers) < 60):
                answers.append(await ask(partition))
                hedges = registry.get_sample_value("xtr_serving_partition_hedges_total", {"partition": "3"})
            assert set(answers) == {"second"}
            assert time.monotonic() - started < 3.0
            assert hedges is not None
            assert hedges >= 1

    asyncio.run(run())


def test_the_deadline_holds_for_all_servers_together():
    async def run():
        first, second = Scripted("first"), Scripted("second")
        first.delay = second.delay = 5.0
        async with partition_of(first, second) as (partition, _):
            started = time.monotonic()
            with pytest.raises(RequestError, match="Partition 3 did not answer: it did not") as error:
                await ask(partition, seconds=0.3)
            assert error.value.code == Code.DEADLINE_EXCEEDED
            assert time.monotonic() - started < 3.0

    asyncio.run(run())


def test_servers_without_the_version_are_not_asked():
    async def run():
        server = Scripted("other")
        async with partition_of(server) as (partition, _):
            partition.replicas[0].proved.clear()
            with pytest.raises(RequestError, match="no server has version 7"):
                await ask(partition)
            assert server.calls == 0

    asyncio.run(run())


def test_what_95_percent_stay_below():
    latencies = Latencies()
    for number in range(31):
        latencies.add(number)
    assert latencies.p95 is None
    latencies.add(31)
    assert latencies.p95 == 29
    for _ in range(16):
        latencies.add(100)
    assert latencies.p95 == 100


def test_addresses():
    addresses = read_addresses(["1=c:8500/other", "0=a:8500, b:8500"])
    assert addresses == ((Address("a:8500"), Address("b:8500")), (Address("c:8500", "other"),))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "Received: no --partition"),
        (["0"], "Received: '0'"),
        (["x=a:1"], "Received: 'x=a:1'"),
        (["0=a"], "Received: '0=a'"),
        (["0=a:1,"], "Received: '0=a:1,'"),
        (["0=a:1", "0=b:1"], "Received: 0 twice"),
        (["0=a:1", "1=a:1"], "Received: a:1 for partitions 0 and 1"),
        (["0=a:1", "2=b:1"], "Received: no --partition 1="),
    ],
)
def test_bad_addresses_are_one_sentence(given, sentence):
    with pytest.raises(InputError, match=sentence):
        read_addresses(given)
