"""TLS, client certificates, tokens, and the address that is bound."""

from __future__ import annotations

import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest

from serving.client import Client, ClientError, tls_credentials
from tests.support.processes import call_command, run_command

CODE = grpc.StatusCode
TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """An authority, and a server's and a client's certificate by it; a stranger's by itself."""
    folder = tmp_path_factory.mktemp("keys")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "stranger"):
        openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign"),
            *("-keyout", f"{name}.key", "-out", f"{name}.crt"),
        )
    extensions = {
        "server": "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "client": "keyUsage=digitalSignature",
    }
    for name, extension in extensions.items():
        openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        (folder / f"{name}.ext").write_text(extension)
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.crt"),
        )
    return folder


def secure_calls(connect, server, keys, client: str | None = None, authority: str = "ca"):
    pair = [(keys / f"{client}.{kind}").read_bytes() for kind in ("key", "crt")] if client else []
    credentials = grpc.ssl_channel_credentials((keys / f"{authority}.crt").read_bytes(), *pair)
    return connect(server.target, grpc.secure_channel(f"localhost:{server.port}", credentials))


def https(server, keys, path: str, headers=None, client: str | None = None) -> int:
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    if client:
        context.load_cert_chain(keys / f"{client}.crt", keys / f"{client}.key")
    request = urllib.request.Request(f"https://localhost:{server.rest_port}{path}", headers=headers or {})
    try:
        return urllib.request.urlopen(request, timeout=10, context=context).status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture(scope="module")
def mutual(start_server, toy_models, keys, tmp_path_factory):
    token_file = tmp_path_factory.mktemp("tokens") / "tokens"
    token_file.write_text(TOKEN + "\n")
    arguments = ("--tls-cert", keys / "server.crt", "--tls-key", keys / "server.key")
    with start_server(
        *(
            "--model-base",
            toy_models,
            *arguments,
            "--tls-client-ca",
            keys / "ca.crt",
            "--token-file",
            token_file,
        )
    ) as server:
        yield server


AUTHORIZED = (("authorization", f"Bearer {TOKEN}"),)


def test_a_client_with_certificate_and_token_is_served(mutual, connect, keys):
    calls = secure_calls(connect, mutual, keys, "client")
    assert calls.predict(metadata=AUTHORIZED).model_spec.version.value == 3
    assert https(mutual, keys, "/v1/models/default", {"Authorization": f"Bearer {TOKEN}"}, "client") == 200


def test_without_a_valid_token_nothing_but_health_is_answered(mutual, connect, keys):
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    calls = secure_calls(connect, mutual, keys, "client")
    for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", TOKEN),)):
        with pytest.raises(grpc.RpcError) as caught:
            calls.predict(metadata=metadata)
        assert caught.value.code() is CODE.UNAUTHENTICATED
    health_pb2_grpc.HealthStub(calls.channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    with pytest.raises(grpc.RpcError) as caught:
        list(reflection_pb2_grpc.ServerReflectionStub(calls.channel).ServerReflectionInfo(iter([question])))
    assert caught.value.code() is CODE.UNAUTHENTICATED
    for path in ("/v1/models/default", "/monitoring/prometheus/metrics"):
        assert https(mutual, keys, path, client="client") == 401


def test_the_client_speaks_tls_and_sends_its_token(mutual, keys, command, tmp_path):
    ca, key, certificate = ((keys / name).read_bytes() for name in ("ca.crt", "client.key", "client.crt"))
    with Client(
        f"localhost:{mutual.port}", credentials=tls_credentials(ca, key, certificate), token=TOKEN
    ) as client:
        assert client.search("a").versions == (3,)
    with Client(f"localhost:{mutual.port}", credentials=tls_credentials(ca, key, certificate)) as client:
        with pytest.raises(ClientError) as caught:
            client.search("a")
        assert caught.value.code is CODE.UNAUTHENTICATED
    (tmp_path / "token").write_text(TOKEN + "\n")
    files = {"--tls-ca": keys / "ca.crt", "--tls-cert": keys / "client.crt", "--tls-key": keys / "client.key"}
    arguments = [str(part) for pair in files.items() for part in pair]
    ended = subprocess.run(
        [
            command,
            "query",
            "a",
            "--server",
            f"localhost:{mutual.port}",
            *arguments,
            "--token-file",
            str(tmp_path / "token"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "v3:a" in ended.stdout, ended.stderr


def reload_nothing(calls, token: str | None) -> grpc.StatusCode:
    """Asks for an empty list of models, and returns how that ended; an admin is told that it is no list."""
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    try:
        calls.raw("HandleReloadConfigRequest", b"", "ModelService", metadata=metadata)
    except grpc.RpcError as error:
        return error.code()
    return CODE.OK


def test_the_configuration_is_changed_by_admins_only(start_server, connect, toy_models, tmp_path):
    (tmp_path / "tokens").write_text(TOKEN + "\n")
    (tmp_path / "admins").write_text("a" * 20 + "\n")
    files = ("--token-file", tmp_path / "tokens", "--admin-token-file", tmp_path / "admins")
    with start_server("--model-base", toy_models, *files) as server:
        calls = connect(server.target)
        assert calls.predict(metadata=AUTHORIZED)
        assert calls.predict(metadata=(("authorization", f"Bearer {'a' * 20}"),))
        assert reload_nothing(calls, None) is CODE.UNAUTHENTICATED
        assert reload_nothing(calls, TOKEN) is CODE.UNAUTHENTICATED
        assert reload_nothing(calls, "a" * 20) is CODE.INVALID_ARGUMENT

        # New tokens are taken without a restart, and bad files are not.
        (tmp_path / "admins").write_text("b" * 20 + "\n")
        server.wait_until(lambda: reload_nothing(calls, "b" * 20) is CODE.INVALID_ARGUMENT)
        assert reload_nothing(calls, "a" * 20) is CODE.UNAUTHENTICATED
        (tmp_path / "tokens").write_text("short\n")
        server.wait_until(lambda: [line for line in server.log() if line["event"] == "credentials_refused"])
        assert calls.predict(metadata=AUTHORIZED)


def test_a_server_for_others_has_no_reload_by_request_unless_it_has_admins(start_server, connect, toy_models):
    with start_server("--model-base", toy_models, "--host", "0.0.0.0") as server:
        calls = connect(server.target)
        assert calls.predict().model_spec.version.value == 3
        assert reload_nothing(calls, None) is CODE.PERMISSION_DENIED


def test_new_certificates_are_taken_without_a_restart(start_server, connect, toy_models, keys, tmp_path):
    def put(name: str) -> None:
        for kind in ("crt", "key"):
            (tmp_path / f".new.{kind}").write_bytes((keys / f"{name}.{kind}").read_bytes())
            (tmp_path / f".new.{kind}").rename(tmp_path / f"server.{kind}")

    def presented() -> dict[str, bytes]:
        address = ("127.0.0.1", server.rest_port)
        grpc_address = ("127.0.0.1", server.port)
        return {
            "rest": ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(address)),
            "grpc": ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(grpc_address)),
        }

    def expected(name: str) -> dict[str, bytes]:
        certificate = ssl.PEM_cert_to_DER_cert((keys / f"{name}.crt").read_text())
        return {"rest": certificate, "grpc": certificate}

    put("server")
    files = ("--tls-cert", tmp_path / "server.crt", "--tls-key", tmp_path / "server.key")
    with start_server("--model-base", toy_models, *files) as server:
        assert presented() == expected("server")
        before = secure_calls(connect, server, keys)
        assert before.predict().model_spec.version.value == 3
        put("stranger")
        server.wait_until(lambda: presented() == expected("stranger"))
        assert before.predict().model_spec.version.value == 3  # a connection that is there stays
        (tmp_path / "server.crt").write_text("damaged")
        server.wait_until(lambda: [line for line in server.log() if line["event"] == "credentials_refused"])
        assert presented() == expected("stranger")


@pytest.mark.parametrize(("client", "authority"), [(None, "ca"), ("stranger", "ca"), ("client", "stranger")])
def test_bad_certificates_are_turned_away(mutual, connect, keys, client, authority):
    calls = secure_calls(connect, mutual, keys, client, authority)
    with pytest.raises(grpc.RpcError) as caught:
        calls.predict(metadata=AUTHORIZED, timeout=5)
    assert caught.value.code() is CODE.UNAVAILABLE
    assert secure_calls(connect, mutual, keys, "client").predict(metadata=AUTHORIZED)


def test_rest_turns_away_clients_without_a_certificate(mutual, keys):
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        https(mutual, keys, "/v1/models/default", {"Authorization": f"Bearer {TOKEN}"})


def test_plain_text_is_turned_away(mutual, connect):
    with pytest.raises(grpc.RpcError) as caught:
        connect(mutual.target).predict(timeout=5)
    assert caught.value.code() is CODE.UNAVAILABLE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --model-base or --model-config-file. Received: --model-base None"),
        (["--model-base", "nowhere"], "--model-base must be a directory that exists"),
        (["--model-base", "gs://bucket/atlas"], "mount the bucket, or copy versions from it"),
        (["--model-base", "{toy}", "--tls-cert", "{keys}/server.crt"], "TLS needs both"),
        (
            ["--model-base", "{toy}", "--tls-cert", "{keys}/server.crt", "--tls-key", "{keys}/client.key"],
            "cannot be read",
        ),
        (["--model-base", "{toy}", "--token-file", "{keys}/none"], "No such file"),
        (["--model-base", "{toy}", "--port", "99999"], "`port` must be between 0 and 65535"),
        (["--model-base", "{toy}", "--max-batch-size", "0"], "`max_batch_size` must be at least 1"),
        (["--model-base", "{toy}", "--host", "203.0.113.1"], "port cannot be opened"),
        (["--model-config-file", "{keys}/server.crt"], "not a ModelServerConfig in text format"),
    ],
)
def test_bad_options_end_with_one_sentence(toy_models, keys, arguments, message):
    filled = [argument.format(toy=toy_models, keys=keys) for argument in arguments]
    # A server that came as far as opening its port has threads that end with the process.
    run = run_command if "--host" in arguments else call_command
    ended = run("serve", *filled)
    assert ended.returncode == 1
    sentences = [line for line in ended.stderr.splitlines() if line.startswith("xtr-tf: ")]
    assert len(sentences) == 1, ended.stderr
    assert message in sentences[0]


def test_only_loopback_is_bound_by_default(server):
    ports = {f"{server.port:04X}", f"{server.rest_port:04X}"}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{server.process.pid}/net/{table}").read_text().splitlines()[1:]:
            address, port = line.split()[1].split(":")
            if line.split()[3] == "0A" and port in ports:
                found.add(port)
                assert address in ("0100007F", "0000000000000000FFFF00000100007F")
    assert found == ports
