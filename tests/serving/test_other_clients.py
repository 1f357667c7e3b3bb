"""The clients of docs/how-to/clients.md, compiled and run if their tools are installed."""

from __future__ import annotations

import graphlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from serving.server.protos import PREDICTION_SERVICE
from tests.support.documents import blocks

JARS = Path("/usr/share/java")
PLUGIN = Path("/usr/bin/grpc_java_plugin")
NEEDED = (
    "grpc-api",
    "grpc-context",
    "grpc-core",
    "grpc-stub",
    "grpc-protobuf",
    "grpc-protobuf-lite",
    "protobuf",
    "guava",
)


def code_of(repository: Path, language: str) -> str:
    page = (repository / "docs" / "how-to" / "clients.md").read_text()
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return code


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    """The files that the service needs, each after those that it imports."""
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def add(name: str) -> None:
        if name in files:
            return
        file = descriptor_pool.Default().FindFileByName(name)
        for imported in file.dependencies:
            add(imported.name)
        message = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(message)
        files[name] = message

    service = descriptor_pool.Default().FindServiceByName(PREDICTION_SERVICE)
    add(service.file.name)
    return descriptor_pb2.FileDescriptorSet(file=files.values())


def test_the_guide_lists_every_file_of_the_service(repository: Path) -> None:
    shown = blocks(repository / "docs" / "how-to" / "clients.md")
    [listed] = [block.text.split() for block in shown if block.title == "protos.txt"]
    files = {file.name: file for file in descriptors().file if not file.name.startswith("google/")}
    assert listed == sorted(files)
    # In Go, every folder is a package, and packages must not import each other in a circle.
    imports: dict[str, set[str]] = {}
    for name, file in files.items():
        imports.setdefault(str(Path(name).parent), set()).update(
            str(Path(own).parent) for own in file.dependency if own in files
        )
    graph = {folder: needed - {folder} for folder, needed in imports.items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())[-1] == "tensorflow_serving/apis"


def test_the_java_client_compiles(repository: Path, tmp_path: Path) -> None:
    jars = [JARS / f"{name}.jar" for name in NEEDED]
    tools = [
        shutil.which("javac"),
        shutil.which("protoc"),
        PLUGIN.is_file(),
        all(jar.is_file() for jar in jars),
    ]
    if not all(tools):
        pytest.skip("needs a JDK, and Debian's protobuf-compiler, its gRPC plugin for Java and libgrpc-java")
    (tmp_path / "files.binpb").write_bytes(descriptors().SerializeToString())
    names = [file.name for file in descriptors().file if not file.name.startswith("google/")]
    subprocess.run(
        [
            *("protoc", "--descriptor_set_in=files.binpb", "--java_out=.", "--grpc-java_out=."),
            *(f"--plugin=protoc-gen-grpc-java={PLUGIN}", *names),
        ],
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    # An annotation that Java had in its own packages up to 8, and no compiler needs.
    stub = tmp_path / "tensorflow" / "serving" / "PredictionServiceGrpc.java"
    stub.write_text(re.sub(r"@javax\.annotation\.Generated\(.*?\)", "", stub.read_text(), flags=re.DOTALL))
    (tmp_path / "Ask.java").write_text(code_of(repository, "java"))
    command = ["javac", "-nowarn", "-cp", ":".join(map(str, [*jars, tmp_path])), "-d", "classes", "Ask.java"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "classes" / "Ask.class").is_file()


def test_the_go_client_is_formatted_and_parses(repository: Path, tmp_path: Path) -> None:
    code = code_of(repository, "go")
    assert "\n    " not in code  # Go is written with tabs
    if shutil.which("gofmt") is None:
        pytest.skip("needs Go")
    (tmp_path / "ask.go").write_text(code)
    ended = subprocess.run(
        ["gofmt", "-l", "ask.go"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
