"""Where the conformance cases of other projects are, and how to read them.

The cases are not part of this repository: they are read from the folder that SKITTER_CONFORMANCE names, or from
`../shared/conformance` beside the checkout. Where neither exists these tests are skipped, and say so.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(
    os.environ.get("SKITTER_CONFORMANCE") or Path(__file__).resolve().parents[3] / "shared" / "conformance",
)

needs_cases = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason=f"no conformance cases at {FOLDER}; name their folder in SKITTER_CONFORMANCE",
)


def rows(name: str) -> list[dict[str, Any]]:
    """All rows of one JSON-lines file, or none where the folder is absent."""
    path = FOLDER / name
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="surrogatepass") as lines:
        return [json.loads(line) for line in lines if line.strip()]
