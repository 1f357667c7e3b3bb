"""The notebook runs from top to bottom, and shows what its cells promise."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_quickstart_runs(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "atlas").symlink_to(repository / "examples" / "atlas")
    notebook = nbformat.read(repository / "examples" / "quickstart.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) == 10
    shown = [output.get("data", {}) for cell in cells for output in cell.outputs]
    assert sum("image/png" in data for data in shown) == 2
    tables = [data["text/html"] for data in shown if "text/html" in data]
    assert any("en-baikal" in table and "<table>" in table for table in tables)
    assert all("en-baikal" in str(cells[place].outputs) for place in (2, 4, 8))
