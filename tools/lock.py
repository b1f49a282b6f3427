"""Write tests/locked.txt, the exact files that the tests install: ``python3.11 tools/lock.py``.

It has one version and one SHA-256 per package, for Linux on x86-64 and the Python that runs this, and names no index.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

from install import with_groups

LOCKED = Path(__file__).resolve().parents[1] / "tests" / "locked.txt"
# The requirements of `make test`, except the project itself.
WANTED = (".[flows]", "--group", "dev", "--group", "cuda-compile")
INSTALL = "pip install --no-deps --require-hashes -r tests/locked.txt && pip install --no-deps --editable ."


def main() -> int:
    """Resolve everything as for an empty environment and write the file; return the exit code."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    done = subprocess.run([*pip, *with_groups(WANTED)], cwd=LOCKED.parents[1], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return done.returncode
    lines = []
    for each in json.loads(done.stdout)["install"]:
        hashes = each["download_info"].get("archive_info", {}).get("hashes", {})
        if hashes:
            name = re.sub(r"[-_.]+", "-", each["metadata"]["name"]).lower()
            lines.append(f"{name}=={each['metadata']['version']} --hash=sha256:{hashes['sha256']}\n")
    python = ".".join(platform.python_version_tuple()[:2])
    head = f"# By tools/lock.py, for Python {python} and Linux on x86-64. To install:\n#   {INSTALL}\n"
    LOCKED.write_text(head + "".join(sorted(lines)), encoding="utf-8")
    print(f"{LOCKED}: {len(lines)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
