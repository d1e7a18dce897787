"""Each rule that a machine holds fails when it is broken: lint, types and import contracts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTED = '"""A module."""\n\nfrom __future__ import annotations\n'
BRANCHES = "".join(f"    if a == {n}:\n        return {n}\n" for n in range(11))

EIGHT = ", ".join(f"{name}: int" for name in "abcdefgh")

BROKEN = [
    (
        "C901",
        "pollerd/urls.py",
        f'{DOCUMENTED}\n\ndef f(a: int) -> int:\n    """Branches."""\n{BRANCHES}    return 0\n',
    ),
    (
        "PLR0913",
        "pollerd/urls.py",
        f'{DOCUMENTED}\n\ndef f({EIGHT}) -> None:\n    """Eight."""\n',
    ),
    ("D100", "pollerd/urls.py", "from __future__ import annotations\n"),
    ("D101", "pollerd/urls.py", f"{DOCUMENTED}\n\nclass C:\n    pass\n"),
    ("D103", "pollerd/urls.py", f"{DOCUMENTED}\n\ndef f() -> None:\n    pass\n"),
    (
        "TID251",
        "pollerd/allocation/core/x.py",
        f'{DOCUMENTED}\nimport time\n\n\ndef f() -> float:\n    """Now."""\n    return time.time()\n',
    ),
    ("TID251", "pollerd/scheduling/x.py", f"{DOCUMENTED}\nimport random\n\nX = random.random()\n"),
    ("NPY002", "pollerd/scheduling/x.py", f"{DOCUMENTED}\nimport numpy as np\n\nX = np.random.rand()\n"),
    ("BLE001", "pollerd/urls.py", f"{DOCUMENTED}\ntry:\n    X = 1\nexcept Exception:\n    X = 2\n"),
    ("S110", "pollerd/urls.py", f"{DOCUMENTED}\ntry:\n    X = 1\nexcept Exception:\n    pass\n"),
    ("T201", "pollerd/urls.py", f'{DOCUMENTED}\nprint("x")\n'),
    ("SLF001", "tests/words/test_x.py", f"{DOCUMENTED}\nfrom pollerd import urls\n\nX = urls._y\n"),
]


@pytest.mark.parametrize(("code", "name", "source"), BROKEN, ids=[f"{code} {name}" for code, name, _ in BROKEN])
def test_lint(code: str, name: str, source: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "json", "--stdin-filename", name, "-"]
    run = subprocess.run(command, input=source, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert code in {found["code"] for found in json.loads(run.stdout)}


def dotted(path: str) -> str:
    """The module that a file is."""
    return path.removesuffix(".py").replace("/", ".")


def test_format() -> None:
    command = [sys.executable, "-m", "ruff", "format", "--check", "--stdin-filename", "pollerd/urls.py", "-"]
    run = subprocess.run(
        command, input="x = {'a':1}\n", capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert run.returncode == 1


@pytest.mark.parametrize(
    ("code", "source"),
    [
        ("no-untyped-def", "def f(x):\n    return x\n"),
        ("arg-type", "from pollerd.urls import normalise_url\nnormalise_url(1)\n"),
        ("ignore-without-code", "x: int = ''  # type: ignore\n"),
        ("unreachable", "def f(x: int) -> int:\n    return x\n    f(x)\n"),
    ],
)
def test_types(code: str, source: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(source)
    options = ["--cache-dir", str(tmp_path), "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path / "broken.py")]
    command = [sys.executable, "-m", "mypy", *options]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240, check=False)
    assert f"[{code}]" in run.stdout, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("pollerd/model.py", "import sqlalchemy"),
        ("pollerd/fetching/egress.py", "import pollerd.daemon"),
        ("pollerd/allocation/index.py", "import pollerd.allocation.whittle.whittle"),
        ("pollerd/storage/engine.py", "import pollerd.storage.commit"),
        ("pollerd/storage/sites.py", "import pollerd.lists.links"),
        ("pollerd/daemon/scheduler_state.py", "import pollerd.daemon.poll"),
        ("pollerd/api/problems.py", "import pollerd.api.sites"),
        ("pollerd/cli/output.py", "import pollerd.cli.demo.demo"),
    ],
)
def test_import_contracts(module: str, line: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "pollerd", tmp_path / "pollerd", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / module
    path.write_text(f"{path.read_text()}\n{line}\n")
    command = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [str(command), "--no-cache"], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert run.returncode == 1, run.stdout
    assert f"{dotted(module)} -> {line.removeprefix('import ')}" in run.stdout
