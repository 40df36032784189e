"""Debian's Chromium, driven by Playwright: what it says on its console and what it asks the network for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
FLAGS += ("--disable-sync", "--disable-dev-shm-usage", "--no-first-run")

DESKTOP, PHONE = (1280, 900), (375, 812)


def browser_path() -> str:
    """The browser. Raises AssertionError that says what to install."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    assert found, f"none of {', '.join(NAMES)} is on the PATH: the report is tested in one; apt-get install chromium"
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Watched:
    """An open page, all that its console said, and every address that it asked for but its own."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def opened(
    browser: Browser, path: Path, *, size: tuple[int, int] = DESKTOP, dark: bool = False, script: bool = True
) -> Iterator[Watched]:
    """The page in a window of that size, in CSS pixels."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        java_script_enabled=script,
    )
    watched = Watched(context.new_page())
    watched.page.on("console", lambda message: watched.said.append(message.text))
    watched.page.on("pageerror", lambda error: watched.said.append(str(error)))
    watched.page.on("request", lambda request: watched.asked.append(request.url))
    watched.page.goto(path.as_uri())
    watched.asked.remove(path.as_uri())
    yield watched
    context.close()
