"""The dashboard and the alerts use metrics that the server has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from serving.server.requests.metrics import Metrics
from serving.server.status import Code


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "serving" / "monitoring"


@pytest.fixture(scope="module")
def expressions(folder: Path) -> list[str]:
    """Everything that the dashboard and the alerts ask Prometheus, with Grafana's variables filled in."""
    dashboard = json.loads((folder / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [
        rule
        for group in yaml.safe_load((folder / "alerts.yaml").read_text())["groups"]
        for rule in group["rules"]
    ]
    asked += [rule["expr"] for rule in rules]
    return [expression.replace("$__rate_interval", "5m").replace("$model", ".*") for expression in asked]


def test_every_metric_and_label_is_one_that_the_server_has(expressions: list[str]) -> None:
    metrics = Metrics()
    metrics.observe_request("grpc", "Predict", "m", Code.OK, 0.1)
    metrics.batch_observer("m")(3)
    metrics.observe_load("m", True, 1.0)
    metrics.set_state("m", 1, "AVAILABLE")
    metrics.set_newest("m", [1])
    for name in ("requests_in_flight", "queue_jobs", "queue_rows"):
        metrics.watch(name, "…", lambda: 0.0)
    lines = [line for line in metrics.page().decode().splitlines() if not line.startswith("#")]
    known: dict[str, set[str]] = {}
    for line in lines:
        name = re.match(r"\w+", line)[0]
        known.setdefault(name, set()).update(re.findall(r'(\w+)="', line))
    assert len(expressions) >= 15
    for expression in expressions:
        used = re.findall(r"((?:xtr_serving|process)_\w+)(?:{([^}]*)})?", expression)
        assert used, expression
        for name, selectors in used:
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", selectors))
            assert name in known, name
            assert labels <= known[name] | {"job", "instance"}, (name, labels)


def test_the_server_watches_those_queues(repository: Path) -> None:
    source = (repository / "serving" / "server" / "model_server.py").read_text()
    for name in ("requests_in_flight", "queue_jobs", "queue_rows"):
        assert f'"{name}"' in source


def test_alerts_fire_when_they_should(folder: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool, of Debian's package prometheus, is not installed")
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        ended = subprocess.run(
            ["promtool", *command], cwd=folder, capture_output=True, text=True, check=False, timeout=60
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_prometheus_understands_the_dashboard(folder: Path, expressions: list[str], tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool, of Debian's package prometheus, is not installed")
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(expressions)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    ended = subprocess.run(
        ["promtool", "check", "rules", "rules.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_panels_do_not_overlap(folder: Path) -> None:
    dashboard = json.loads((folder / "dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
