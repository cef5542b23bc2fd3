#!/usr/bin/python3
"""Opens the dashboard in Chromium, headless, through chromedriver, and looks at it as a user would.

browse_dashboard.py URL FOLDER             the jobs of tests/support/fake_job_feed.cpp
browse_dashboard.py URL FOLDER ended       the same; the caller ends the dashboard after "ready for the end"
browse_dashboard.py URL FOLDER training    a running training of 2 instances with 4 replicas

Prints a line for each check that passes, and exits at the first check that fails. Writes screenshots at two widths
into FOLDER. Exits with 77 if Chromium or chromedriver is not installed. Requires only Python, because WebDriver is
JSON over HTTP.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

DEADLINE_SECONDS = 120


class Browser:
    def __init__(self, folder):
        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if not chromium or not driver:
            sys.exit(77)
        self.process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True, process_group=0)
        self.base = None
        for line in self.process.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.base = f"http://127.0.0.1:{found[1]}"
                break
        options = {
            "binary": chromium,
            # As root, as in a container, Chromium has no sandbox.
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--no-first-run", f"--user-data-dir={folder}"],
        }
        capabilities = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self.session = None
        try:
            self.session = self.call("POST", "/session", {"capabilities": capabilities})["sessionId"]
        except OSError:
            self.close()
            raise

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            return json.load(answer)["value"]

    def command(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def run(self, script):
        return self.command("POST", "/execute/sync", {"script": script, "args": []})

    def devtools(self, name, **parameters):
        return self.command("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def press(self, key):
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.command("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def resize(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def screenshot(self, path):
        height = self.devtools("Page.getLayoutMetrics")["cssContentSize"]["height"]
        clip = {"x": 0, "y": 0, "width": self.run("return innerWidth"), "height": height, "scale": 1}
        picture = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def close(self):
        try:
            if self.session:
                self.command("DELETE", "")
        except OSError:
            pass
        # chromedriver and what it started are a group of their own.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def expect(what, condition, found=""):
    if not condition:
        sys.exit(f"not seen: {what}; found: {found}")
    print(f"seen: {what}", flush=True)


def eventually(browser, what, script):
    end = time.monotonic() + DEADLINE_SECONDS
    value = None
    while time.monotonic() < end:
        value = browser.run(script)
        if value:
            print(f"seen: {what}", flush=True)
            return value
        time.sleep(0.1)
    sys.exit(f"not seen in {DEADLINE_SECONDS} s: {what}; found: {value}")


LAST_STEP = "return Chart.getChart('loss-canvas')?.data.datasets[0].data.at(-1)?.x ?? 0"


def check_curves_move(browser):
    for name in ("loss", "accuracy", "speed"):
        points = f"(Chart.getChart('{name}-canvas')?.data.datasets[0].data.length ?? 0)"
        eventually(browser, f"the curve of {name}", f"return {points} > 3")
    first = browser.run(LAST_STEP)
    eventually(browser, "curves that move", f"return (() => {{ {LAST_STEP} }})() > {first}")
    drawn = ("const canvas = document.getElementById('loss-canvas');"
             "const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
             "return pixels.some(value => value !== 0)")
    expect("something drawn on the canvas", browser.run(drawn))


SHARES = "Chart.getChart('share-curves-canvas')?.data.datasets"


def check_share_curves_move(browser):
    eventually(browser, "four curves of time shares", f"return {SHARES}?.length === 4 && {SHARES}.every(line => line.data.length > 3)")
    last = f"return {SHARES}[1].data.at(-1).x"
    first = browser.run(last)
    eventually(browser, "curves of time shares that move", f"return (() => {{ {last} }})() > {first}")
    sums = browser.run(f"return {SHARES}[0].data.map((_, i) => {SHARES}.reduce((sum, line) => sum + line.data[i].y, 0))")
    expect("shares that are all of the time", all(98 <= value <= 102 for value in sums), sums)


def check_choice_of_instance(browser):
    """The slowest instance's curves unless another is chosen, by the keyboard alone."""
    words = "return document.getElementById('share-curves-canvas').getAttribute('aria-label')"
    label = browser.run(words)
    expect("the curves of the slowest instance in words", re.search(r"of instance 2: .*computing 85 %.* at step \d+$", label), label)
    name = browser.run("return document.getElementById('share-instance').labels[0].textContent")
    expect("a name for the choice of an instance", name.strip() == "Instance", name)
    browser.run("document.getElementById('share-instance').focus()")
    browser.press("1")
    eventually(browser, "the curves of another instance", f"return (() => {{ {words} }})().includes('of instance 1: ')")
    drawn = browser.run(LAST_STEP)
    eventually(browser, "the page drawn anew", f"return (() => {{ {LAST_STEP} }})() > {drawn}")
    expect("a choice that stays, with the focus", browser.run("return document.activeElement.id === 'share-instance' && document.activeElement.value") == "1")
    browser.run("const choice = document.getElementById('share-instance'); choice.value = ''; choice.dispatchEvent(new Event('change'))")
    browser.run("document.querySelector('#share-curves details').open = true")
    eventually(browser, "the table of shares", "return document.querySelectorAll('#share-curves tbody tr').length > 2")
    browser.run("document.querySelector('#share-curves details').open = false")


def check_topology(browser):
    numbers = [browser.run(COUNT_BOXES.format(kind)) for kind in ("host", "instance", "replica", "stage")]
    expect("2 hosts, 4 instances, 8 replicas, 16 stages", numbers == [2, 4, 8, 16], numbers)
    inside = ("const boxes = kind => [...document.querySelectorAll('#topology rect.' + kind)].map(box => box.getBoundingClientRect());"
              "const within = (inner, outer) => inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top"
              " && inner.bottom <= outer.bottom;"
              "return boxes('stage').every(box => boxes('replica').filter(outer => within(box, outer)).length === 1)"
              " && boxes('replica').every(box => boxes('instance').filter(outer => within(box, outer)).length === 1)"
              " && boxes('instance').every(box => boxes('host').filter(outer => within(box, outer)).length === 1)")
    expect("each box within its own", browser.run(inside))
    expect("the slowest instance marked in the picture",
           browser.run("return document.querySelectorAll('#topology rect.slowest').length") == 1)
    row = browser.run("return document.querySelector('#instances tr.slowest').textContent")
    expect("the slowest instance marked in the table", row.startswith("2slowest"), row)


def check_accessibility(browser):
    landmarks = "return ['header', 'nav', 'main', 'footer'].map(name => document.querySelectorAll('body > ' + name).length)"
    expect("landmarks", browser.run(landmarks) == [1, 1, 1, 1])
    charts = ("return [...document.querySelectorAll('figure')].every(figure => figure.querySelector('canvas[role=img][aria-label]')"
              " && figure.querySelector('details table caption'))")
    expect("a label and a table for each chart", browser.run(charts))
    browser.run("document.querySelector('#loss details').open = true")
    eventually(browser, "the table of a chart", "return document.querySelectorAll('#loss tbody tr').length > 2")
    browser.run("document.querySelector('#loss details').open = false")
    expect("a polite log of events", browser.run("return document.getElementById('events').getAttribute('aria-live')") == "polite")
    unnamed = browser.run("return [...document.querySelectorAll('button, a, [tabindex=\"0\"], summary')]"
                          ".filter(item => !(item.textContent.trim() || item.getAttribute('aria-label') || item.getAttribute('aria-labelledby')))"
                          ".map(item => item.outerHTML)")
    expect("a name for all that takes the focus", unnamed == [], unnamed)
    tree = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    roles = {node.get("role", {}).get("value") for node in tree}
    wanted = {"banner", "navigation", "main", "contentinfo", "log", "status", "table"}
    expect("roles that a screen reader knows", wanted <= roles, sorted(wanted - roles))


def check_keyboard(browser):
    """From the top of the page, Tab alone reaches the skip link, the theme and the jobs, and Enter chooses one."""
    browser.run("document.activeElement.blur(); window.getSelection().removeAllRanges()")
    reached = []
    for _ in range(6):
        browser.press("\ue004")
        reached.append(browser.run("const at = document.activeElement; return at.id || at.dataset.job || at.className"))
        if reached[-1] == "done":
            break
    expect("skip link, theme and jobs by Tab", reached == ["skip", "theme", "train", "done"], reached)
    browser.press("\ue007")
    eventually(browser, "another job, chosen by Enter",
               "return document.getElementById('job-name').textContent === 'mlp <script>alert(1)</script> & \"friends\"'")
    expect("the focus where it was", browser.run("return document.activeElement.dataset.job") == "done")
    browser.run("[...document.querySelectorAll('nav button')][0].click()")
    eventually(browser, "the first job again", "return document.querySelectorAll('#topology rect.host').length === 2")


COUNT_BOXES = "return document.querySelectorAll('#topology rect.{}').length"
END = "return document.getElementById('end').hidden ? '' : document.getElementById('end').textContent"


def check_ended_job(browser):
    """A job that has ended has its topology, its instances and its end on the screen, without warnings."""
    expect("no end of a running job", browser.run(END) == "", browser.run(END))
    browser.run("[...document.querySelectorAll('nav button')][1].click()")
    eventually(browser, "how a job ended", f"return (() => {{ {END} }})() === 'This job has ended: succeeded after 7.5 s (exit code 0).'")
    numbers = [browser.run(COUNT_BOXES.format(kind)) for kind in ("host", "instance", "replica", "stage", "dead")]
    expect("the topology of an ended job", numbers == [1, 2, 4, 8, 0], numbers)
    rows = browser.run("return [...document.querySelectorAll('#instances tbody tr')].map(row => row.textContent)")
    expect("the instances of an ended job", len(rows) == 2 and all("ended" in row and "gone" not in row for row in rows), rows)
    browser.run("[...document.querySelectorAll('nav button')][0].click()")
    eventually(browser, "the running job again", "return document.querySelectorAll('#topology rect.host').length === 2")


def check_safety(browser, url):
    origins = browser.run("return performance.getEntriesByType('resource').map(entry => new URL(entry.name).origin + '/')")
    expect("nothing from elsewhere", set(origins) == {url}, origins)
    log = [entry for entry in browser.command("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]
    expect("no error in the console", log == [], log)


def check_width(browser, width, folder, name="dashboard"):
    browser.resize(width, 900)
    browser.run("dispatchEvent(new Event('resize'))")
    size = eventually(browser, f"a layout for {width} pixels",
                      f"return innerWidth === {width} && document.documentElement.scrollWidth")
    expect(f"nothing wider than {width} pixels", size <= width, size)
    browser.screenshot(f"{folder}/{name}-{width}.png")


def choose_theme(browser, theme):
    browser.run(f"for (let i = 0; i < 3 && localStorage.getItem('lockstep-theme') !== '{theme}'; ++i) document.getElementById('theme').click()")
    return browser.run("return getComputedStyle(document.body).backgroundColor")


def look(browser, url, folder):
    browser.resize(1280, 900)
    browser.command("POST", "/url", {"url": url + "#%"})
    eventually(browser, "a live page, whatever stands behind #", "return document.getElementById('connection').dataset.state === 'live'")
    check_curves_move(browser)
    check_share_curves_move(browser)
    check_topology(browser)
    check_accessibility(browser)
    check_keyboard(browser)
    check_ended_job(browser)
    check_choice_of_instance(browser)
    eventually(browser, "the event log", "return document.querySelectorAll('#events li').length >= 3")
    light = choose_theme(browser, "light")
    check_width(browser, 1280, folder)
    check_width(browser, 390, folder)
    dark = choose_theme(browser, "dark")
    expect("another background in the dark", light != dark, [light, dark])
    check_curves_move(browser)
    browser.screenshot(f"{folder}/dashboard-390-dark.png")
    check_safety(browser, url)


# Counts the attempts to connect that fail.
COUNT_ERRORS = ("window.connectionErrors = 0;"
                "const connect = window.fetch;"
                "window.fetch = (...request) => connect(...request).catch(error => { ++window.connectionErrors; throw error; });")


def look_at_end(browser, url, folder):
    """The dashboard ends together with its job: the page keeps the job and shows how it ended."""
    browser.resize(1280, 900)
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", source=COUNT_ERRORS)
    browser.command("POST", "/url", {"url": url})
    eventually(browser, "a live page", "return document.getElementById('connection').dataset.state === 'live'")
    check_curves_move(browser)
    expect("a running job, ready for the end", browser.run(END) == "")
    eventually(browser, "the end of the connection", "return document.getElementById('connection').dataset.state === 'ended'")
    words = browser.run(END)
    expect("how the job failed", words == "This job has ended: failed after 12.3 s (exit code 137): "
           "instance 2: killed by SIGKILL.", words)
    words = browser.run("return document.getElementById('connection').textContent")
    expect("the end of the dashboard", words == "The dashboard has ended; this is the last state", words)
    numbers = [browser.run(COUNT_BOXES.format(kind)) for kind in ("host", "instance", "replica", "stage", "slowest", "dead")]
    expect("the topology, without marks", numbers == [2, 4, 8, 16, 0, 0], numbers)
    rows = browser.run("return [...document.querySelectorAll('#instances tbody tr')].map(row => row.textContent)")
    expect("all instances in the table", len(rows) == 4 and all("ended" in row for row in rows), rows)
    points = browser.run("return Chart.getChart('loss-canvas').data.datasets[0].data.length")
    expect("the curves", points > 3, points)
    errors = browser.run("return window.connectionErrors")
    eventually(browser, "another attempt to connect, which fails", f"return window.connectionErrors > {errors}")
    expect("the same job after another attempt to connect", browser.run(COUNT_BOXES.format("instance")) == 4)
    check_width(browser, 1280, folder, "ended")
    check_width(browser, 390, folder, "ended")


def look_at_training(browser, url, folder):
    browser.resize(1280, 900)
    browser.command("POST", "/url", {"url": url})
    eventually(browser, "a live page", "return document.getElementById('connection').dataset.state === 'live'")
    check_curves_move(browser)
    check_share_curves_move(browser)
    numbers = [browser.run(COUNT_BOXES.format(kind)) for kind in ("host", "instance", "replica", "stage")]
    expect("1 host, 2 instances, 4 replicas, 4 stages", numbers == [1, 2, 4, 4], numbers)
    rows = browser.run("return [...document.querySelectorAll('#instances tbody tr')].map(row => row.textContent)")
    expect("both instances in the table", len(rows) == 2 and all("training" in row for row in rows), rows)
    words = browser.run("return document.getElementById('bottleneck').textContent")
    expect("the bottleneck in words", re.match(r"[a-z]+(-bound)?: .*\d+ % of the time", words), words)
    expect("the start of instances in the event log", browser.run("return document.querySelectorAll('#events li').length") >= 2)
    choose_theme(browser, "light")
    check_width(browser, 1280, folder, "training")
    check_width(browser, 390, folder, "training")
    check_safety(browser, url)


def main():
    url, folder = sys.argv[1:3]
    look_at = {"training": look_at_training, "ended": look_at_end}.get("".join(sys.argv[3:]), look)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            look_at(browser, url, folder)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
