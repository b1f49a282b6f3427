"""Two additions to pyproject.toml: builds carry the commit, and sdists of equal sources are equal."""

import gzip
import os
import runpy
import tarfile
import time
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

COMMIT = runpy.run_path("mbe_stage/pipeline/package_files.py")["commit"]()


class BuildPy(build_py):
    """Writes the commit beside the modules; an editable installation asks git instead."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, "mbe_stage", "commit.txt").write_text(COMMIT, encoding="ascii")


class Sdist(sdist):
    """Writes the commit, and one time, owner and mode for all files."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        Path(base_dir, "mbe_stage", "commit.txt").write_text(COMMIT, encoding="ascii")

    def make_archive(self, base_name: str, *_: object, base_dir: str, **__: object) -> str:
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = seconds, 0, 0, "", ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            return entry

        path = f"{base_name}.tar.gz"
        with gzip.GzipFile(path, "wb", mtime=seconds) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
            archive.add(base_dir, filter=plain)
        return path


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
