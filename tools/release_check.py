"""Build the release of the last commit into ``dist/``, and check it: ``python tools/release_check.py``.

Wheel and sdist are built twice, from two clones, and must be equal; so must the wheel of the sdist. Then the wheel is
installed without a checkout and tested as a user would use it (`tests/test_installed.py`). The wheel `mbe-stage-cubins`
is built for the same sources (`tools/cubins.py`). It needs the group `release` of pyproject.toml and the package index.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MOST_BYTES = 3_000_000
# At the top of the sdist, next to the package.
SOURCES = {"LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "THIRD_PARTY_NOTICES.md"}
SOURCES |= {"mbe_stage", "mbe_stage.egg-info", "pyproject.toml", "setup.cfg", "setup.py"}
NOT_SHIPPED = {"tests", "benchmarks", "results", "docs", "tools", "examples", "__pycache__"}


def main() -> None:
    """Build and check; end with an error at the first check that fails."""
    os.umask(0o022)
    must(not output("git", "status", "--porcelain"), "there are changes without a commit")
    os.environ["SOURCE_DATE_EPOCH"] = output("git", "log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        first, second = (built(work / name) for name in ("first", "second"))
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(first, DIST)
        (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
        same(first, second)
        with tarfile.open(sdist) as archive:
            archive.extractall(work / "sdist", filter="data")
        build("--wheel", work / "sdist" / sdist.name.removesuffix(".tar.gz"), work / "of_sdist")
        must(digest(work / "of_sdist" / wheel.name) == digest(wheel), "the sdist builds another wheel")
        run("twine", "check", "--strict", wheel, sdist)
        check_contents(wheel, sdist)
        write_sbom(wheel, work / "environment")
        build_cubins(work / "environment")
    tests = ["pytest", "tests/test_installed.py", "-q", "-n", "0", "-m", "slow or not slow", "-p", "no:cacheprovider"]
    run(*tests, MBE_WHEEL=str(wheel))
    for path in sorted(DIST.iterdir()):
        print(f"{digest(path)}  {path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")


def built(clone: Path) -> Path:
    """Return both packages of a fresh clone: files of an old `build/` would go into the wheel."""
    output("git", "clone", "--quiet", ROOT, clone)
    build("--wheel", "--sdist", clone, clone.with_suffix(".dist"))
    return clone.with_suffix(".dist")


def build(*arguments: object) -> None:
    *options, source, out = arguments
    run("build", "--quiet", *options, "--outdir", out, source)


def same(first: Path, second: Path) -> None:
    digests = [{path.name: digest(path) for path in folder.iterdir()} for folder in (first, second)]
    must(digests[0] == digests[1], f"two builds differ: {digests}")


def check_contents(wheel: Path, sdist: Path) -> None:
    must(wheel.stat().st_size <= MOST_BYTES, f"{wheel.name} has {wheel.stat().st_size:,} bytes")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = [PurePosixPath(name) for name in archive.namelist()]
    with tarfile.open(sdist) as archive:
        in_sdist = [PurePosixPath(*Path(entry.name).parts[1:]) for entry in archive if entry.isfile()]
    about = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    must({path.parts[0] for path in in_wheel} == {"mbe_stage", about}, "the wheel has more than one package")
    must({path.parts[0] for path in in_sdist} == SOURCES, "the sdist has more or less at its top")
    for path in (*in_wheel, *in_sdist):
        must(not NOT_SHIPPED & {*path.parts[:2]} and not path.name.startswith("test_"), f"{path} is shipped")
    wanted = [f"{about}/licenses/{name}" for name in ("LICENSE", "THIRD_PARTY_NOTICES.md")]
    for name in (*wanted, "mbe_stage/py.typed", "mbe_stage/commit.txt", "mbe_stage/configs/default.yaml"):
        must(PurePosixPath(name) in in_wheel, f"the wheel has no {name}")


def write_sbom(wheel: Path, environment: Path) -> None:
    """Write a CycloneDX bill of materials of an environment with the wheel and its dependencies."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = ["pip", "--quiet", "--disable-pip-version-check", "--python", environment / "bin" / "python", "install"]
    run(*pip, wheel)
    # Install it by its name, or the bill would contain a path of this machine.
    run(*pip, "--no-index", "--no-deps", "--force-reinstall", "--find-links", DIST, "mbe-stage")
    about = ["--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--output-format", "JSON"]
    sbom = DIST / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    run("cyclonedx_py", "environment", *about, "--output-file", sbom, environment / "bin" / "python")


def build_cubins(environment: Path) -> None:
    """Build the wheel of machine code, and check that the installed release has its sources."""
    run("tools.cubins", DIST)
    (cubins,) = DIST.glob("mbe_stage_cubins-*.whl")
    run("twine", "check", "--strict", cubins)
    with zipfile.ZipFile(cubins) as archive:
        sources = json.loads(archive.read("mbe_stage_cubins/index.json"))["sources"]
    program = "from mbe_stage.device import cubins; print(cubins.digest_of_sources())"
    must(output(environment / "bin" / "python", "-I", "-c", program) == sources, "cubins are of other sources")


def run(module: str, *arguments: object, **variables: str) -> None:
    """Run a module of this environment."""
    print("$", module, *arguments, flush=True)
    command = [sys.executable, "-m", module, *map(str, arguments)]
    subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=True)


def output(*command: object) -> str:
    return subprocess.run(
        list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def must(holds: object, otherwise: str) -> None:
    if not holds:
        sys.exit(f"release-check: {otherwise}")


if __name__ == "__main__":
    main()
