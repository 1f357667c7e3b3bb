"""A report's files: `report.json`, `report.md` and `report.html`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xtr_tf.evaluation.report.html import render_html
from xtr_tf.evaluation.report.markdown import render_markdown


def write_report(folder: Path, content: Mapping[str, Any]) -> None:
    """Writes all three forms of a report into a folder."""
    data = json.dumps(content, ensure_ascii=False, indent=1)
    (folder / "report.json").write_text(f"{data}\n", encoding="utf-8")
    # The other two are made from what was written, so that an old report can be rendered again.
    stored = json.loads(data)
    (folder / "report.md").write_text(render_markdown(stored), encoding="utf-8")
    (folder / "report.html").write_text(render_html(stored), encoding="utf-8")
