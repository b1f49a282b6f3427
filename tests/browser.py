"""A real browser for page tests: the system's Chromium, driven by Playwright. The fixture is in conftest.py.

Without Chromium the tests are skipped. With it, a missing companion fails them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["chromium", "opened", "violations"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_PATIENCE = 30_000.0


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser.

    While it is open, this thread has a running event loop and `asyncio.run` fails, so the fixture closes it at the end
    of each module.
    """
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; expected chromium on the path: apt-get install chromium")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        # Containers often forbid the sandbox, and every page here is our own. Emulating a GPU takes half of the time.
        switches = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-extensions"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=switches, timeout=_PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, address: str | Path, **options: Any) -> Iterator[Page]:
    """Open a file or an address in a profile of its own, and fail if the page misbehaves.

    A page must not raise an error, print one to the console, or ask another host for anything.

    Parameters
    ----------
    browser : Browser
    address : str or Path
    **options
        Of `Browser.new_context`: ``viewport``, ``color_scheme``, ``java_script_enabled``.
    """
    address = address.resolve().as_uri() if isinstance(address, Path) else address
    context = browser.new_context(**options)
    context.set_default_timeout(_PATIENCE)
    page, complaints = context.new_page(), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    here = "/".join(address.split("/")[:3])
    page.on("request", lambda request: None if request.url.startswith(here) else complaints.append(request.url))
    try:
        page.goto(address)
        yield page
    finally:
        context.close()
    assert not complaints


def violations(page: Page) -> list[str]:
    """Return the axe rules that the page breaks, each with its elements."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:5]]}" for each in found]
