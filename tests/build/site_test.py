#!/usr/bin/env python3
"""Builds the documentation site and checks it in Chromium: site_test.py LOCKSTEP FOLDER.

FOLDER receives the site, and screenshots of some pages with widths of 1280 and 390 pixels. Exit code 77: Doxygen,
mkdocs, its theme, Chromium or chromedriver is not installed.
"""

import functools
import html as html_module
import http.server
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "monitor"), str(ROOT / "tools" / "docs")]
from browse_dashboard import Browser, eventually, expect  # noqa: E402

# The pages with screenshots. Other checks open every page of the site.
SHOWN = {"home": "index.html", "tutorial": "start/tutorial.html", "crashes": "guides/crashes.html"}
WIDTHS = (1280, 390)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(folder: Path) -> http.server.ThreadingHTTPServer:
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def build(lockstep: str, output: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "docs" / "build_site.py", "--lockstep", lockstep,
                           "--output", output], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout, flush=True)
        sys.exit(done.returncode)


def check_files(html: Path, lockstep: str) -> None:
    """What needs no browser."""
    foreign = [f"{file.relative_to(html)}: {found}" for file in html.rglob("*.html")
               for found in re.findall(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="?(?:https?:)?//[^" >]+', file.read_text())]
    expect("no script, style, font or image from the network", not foreign, foreign[:3])
    shown = subprocess.run([lockstep, "--help"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  (\w+) ", shown.split("Commands:")[1], re.MULTILINE)
    missing = [name for name in names if not (html / "reference" / "commands" / f"{name}.html").is_file()]
    expect("a page for each command", len(names) > 5 and not missing, missing)
    world = (html / "reference" / "api" / "World.html").read_text()
    expect("members of a class with their comments", "num_replicas" in world and "Replicas of the whole job" in world)
    unreadable = [str(file.relative_to(html)) for file in html.rglob("*.html") if re.search("[\x02\x03]", file.read_text())]
    expect("no control characters", not unreadable, unreadable[:3])
    comments = [str(file.relative_to(html)) for file in html.rglob("*.html")
                if re.search(r"<!-- (run|not run|cpp|file=)", file.read_text())]
    expect("no comments for scripts", not comments, comments)


def check_anchors(html: Path) -> None:
    texts = {file: file.read_text() for file in html.rglob("*.html") if file.name != "404.html"}
    ids = {file: set(re.findall(r'\bid="?([^" >]+)', text)) for file, text in texts.items()}
    broken = []
    for file, text in texts.items():
        for link in re.findall(r'<a [^>]*?href="([^"]+)"', text):
            path, _, anchor = html_module.unescape(link).partition("#")
            if re.match(r"[a-z]+:", path):
                continue
            target = (file.parent / path).resolve() if path else file
            if target not in ids and not target.exists():
                broken.append(f"{file.relative_to(html)}: {link}")
            elif anchor and target in ids and anchor not in ids[target] and anchor != "__skip":
                broken.append(f"{file.relative_to(html)}: {link}")
    expect("links to pages and anchors of the site", not broken, broken[:5])


def open_page(browser, base: str, page: str) -> None:
    browser.command("POST", "/url", {"url": f"{base}/{page}"})


def check_overflow(browser, base: str, html: Path) -> None:
    """Every page fits a phone."""
    # Each page would load and index the text of the whole site.
    browser.devtools("Network.enable")
    browser.devtools("Network.setBlockedURLs", urls=["*/search/search_index.json"])
    width = min(WIDTHS)
    browser.resize(width, 900)
    pages = sorted(str(file.relative_to(html)) for file in html.rglob("*.html"))
    too_wide = []
    for page in pages:
        open_page(browser, base, page)
        found = browser.run("return document.documentElement.scrollWidth")
        if found > width:
            too_wide.append(f"{page}: {found}")
    expect("all pages of the site", len(pages) > 50, pages)
    expect(f"no sideways scrolling of {len(pages)} pages with {width} pixels", not too_wide, too_wide)
    browser.devtools("Network.setBlockedURLs", urls=[])


def check_copying(browser, base: str) -> None:
    """The copy button of a console block copies the commands, without prompts and outputs."""
    open_page(browser, base, SHOWN["tutorial"])
    eventually(browser, "a copy button in a console block",
               "const button = document.querySelector('.language-console .md-clipboard');"
               "return button !== null && getComputedStyle(button).display !== 'none'")
    # What the theme does when the button is clicked.
    copied = browser.run("return [...document.querySelectorAll('.language-console code')].slice(0, 2).map(code => {"
                         "code.setAttribute('data-md-copying', ''); const text = code.innerText;"
                         "code.removeAttribute('data-md-copying'); return text.trim(); })")
    expect("copied commands without prompts", len(copied) == 2 and copied[0].startswith("make ")
           and "$ " not in copied[0], copied)
    expect("copied commands without outputs", copied[1] == "lockstep data info --dataset fashion-mnist", copied)


def take_screenshots(browser, base: str, folder: Path, theme: str, names: list[str]) -> None:
    for width in WIDTHS:
        browser.resize(width, 900)
        for name in names:
            open_page(browser, base, SHOWN[name])
            found = browser.run("return document.documentElement.scrollWidth")
            expect(f"no sideways scrolling of {SHOWN[name]} with {width} pixels", found <= width, found)
            browser.screenshot(f"{folder}/site-{name}-{width}-{theme}.png")
    browser.resize(max(WIDTHS), 900)


def finds(browser, seconds: float) -> bool:
    """Searches for a word. Before the search index is loaded there are no results, so the word is typed again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        browser.run("const box = document.querySelector('input.md-search__input');"
                    "const type = word => { box.value = word; box.dispatchEvent(new Event('input', {bubbles: true}));"
                    "  box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); };"
                    "box.focus(); type(''); type('checkpoint')")
        time.sleep(2)
        if browser.run("return [...document.querySelectorAll('.md-search-result__link')]"
                       "  .some(link => link.href.includes('crashes'))"):
            return True
    return False


def check_search(browser, base: str) -> None:
    # On a loaded machine, the search of the theme once showed nothing for 120 s, so the page is loaded up to four times.
    def load_and_search() -> bool:
        open_page(browser, base, "index.html")
        eventually(browser, "a search box", "return document.querySelector('input.md-search__input') !== null")
        return finds(browser, 60)

    expect("results of a search for a word", any(load_and_search() for _ in range(4)), "no link to the page about crashes")


def theme_of(browser) -> list[str]:
    return browser.run("return [document.body.dataset.mdColorScheme, getComputedStyle(document.body).backgroundColor]")


def check_themes(browser, base: str, folder: Path) -> None:
    seen = {}
    for preference in ("light", "dark"):
        browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": preference}])
        browser.run("localStorage.clear()")
        open_page(browser, base, SHOWN["crashes"])
        scheme = {"light": "default", "dark": "slate"}[preference]
        eventually(browser, f"the {preference} theme, as the system asks for",
                   f"return document.body.dataset.mdColorScheme === '{scheme}'")
        seen[preference] = theme_of(browser)
        take_screenshots(browser, base, folder, preference, list(SHOWN) if preference == "light" else ["crashes"])
    expect("two backgrounds", seen["light"][1] != seen["dark"][1], seen)
    before = theme_of(browser)
    browser.run("[...document.querySelectorAll('label[title^=\"Switch to\"]')].find(label => !label.hidden).click()")
    eventually(browser, "the other theme after a click", f"return document.body.dataset.mdColorScheme !== '{before[0]}'")


def look(browser, base: str, folder: Path) -> None:
    browser.resize(1280, 900)
    open_page(browser, base, "index.html")
    title = browser.run("return document.title")
    expect("the title", "lockstep" in title, title)
    tabs = browser.run("return [...document.querySelectorAll('.md-tabs__link')].map(link => link.textContent.trim())")
    expect("the four sections", tabs == ["Home", "Start", "Guides", "Reference", "Internals"], tabs)
    check_search(browser, base)
    check_copying(browser, base)
    check_themes(browser, base, folder)
    check_overflow(browser, base, folder / "html")


def main() -> int:
    lockstep, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    build(lockstep, folder)
    check_files(folder / "html", lockstep)
    check_anchors(folder / "html")
    server = serve(folder / "html")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        try:
            browser = Browser(profile)
        except SystemExit:
            print("site: Chromium or chromedriver is not installed; try: make packages-test", flush=True)
            raise
        try:
            look(browser, f"http://127.0.0.1:{server.server_address[1]}", folder)
        finally:
            browser.close()
            server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
