#!/usr/bin/env python3
"""Tests the status page in headless Chromium: tests/page/check_page.py BUILD   (make check-page)

A real daemon runs jobs meanwhile. Prints TAP. BUILD/page/*.png has screenshots.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import traceback
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "bench"))
import rig  # noqa: E402
from browser import Browser, find, wait_until  # noqa: E402
from fleet import Fleet  # noqa: E402

# Runs before the page's script and records violations of its policy, and the time and the number of
# points of the chart's first drawing.
OBSERVER = """
  window.violations = [];
  addEventListener('securitypolicyviolation', event =>
    window.violations.push(`${event.effectiveDirective} ${event.blockedURI}`));
  new MutationObserver((changes, observer) => {
    const line = document.querySelector('#throughput .line-done');
    if (!line) return;
    const points = line.getAttribute('d').split('L').length;
    window.first = {points, after_s: performance.now() / 1000};
    observer.disconnect();
  }).observe(document, {childList: true, subtree: true});
"""
# The latest sample and the shown values, read together.
SHOWN = """(() => {
  const text = id => document.getElementById(id).textContent;
  return JSON.stringify({
    sample: samples[samples.length - 1],
    tiles: [...document.querySelectorAll('.tile')].map(one =>
      ['name', 'value', 'more'].map(part => one.querySelector('.' + part).textContent)),
    state: text('state'), redis: text('redis'), about: text('about'), host: text('host'),
    rows: [...document.querySelectorAll('#pools .row')].map(one =>
      [one.firstChild.textContent, one.lastChild.textContent]),
    errors: [...document.querySelectorAll('#errors tbody tr')].map(row =>
      [...row.cells].map(cell => cell.textContent)),
    markup: document.querySelectorAll('#errors tbody b').length,
  });
})()"""
# Text with low contrast: [text, contrast], below 4.5 to 1 (WCAG 2.1, 1.4.3).
FAINT = """(() => {
  const parts = colour => colour.match(/[0-9.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = parts(colour).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (parts(colour).length === 3) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const parent = node.parentElement, style = getComputedStyle(parent);
    if (!node.data.trim() || !parent.getClientRects().length) continue;
    const ink = light(parent instanceof SVGElement ? style.fill : style.color);
    const [low, high] = [ink, light(behind(parent))].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) found.push([node.data.trim(), contrast.toFixed(2)]);
  }
  return found;
})()"""
DRAWN_TO_SIZE = """['throughput', 'stages'].every(id =>
  document.getElementById(id).view.width === document.getElementById(id).clientWidth)"""
# Elements that extend beyond the window or into the padding of their card, and text that is cut
# off.
TOO_WIDE = """(() => {
  const name = node => `${node.tagName}.${node.getAttribute('class') || node.id}`;
  const found = document.documentElement.scrollWidth > innerWidth ? ['the page'] : [];
  for (const node of document.querySelectorAll('main *')) {
    const box = node.getBoundingClientRect(), parent = node.parentElement.closest('.card');
    const frame = parent ? parent.getBoundingClientRect() : {left: 0, right: innerWidth};
    const inset = parent ? parseFloat(getComputedStyle(parent).paddingRight) : 0;
    if (box.width && (box.right > frame.right - inset + 0.5 || box.left < frame.left + inset - 0.5))
      found.push(`${name(node)} sticks out`);
    if (node.matches('.more, .name, .value, .figure') && node.scrollWidth > node.clientWidth)
      found.push(`${name(node)} is cut off: ${node.textContent}`);
  }
  return found;
})()"""


def count(value):
    """Formats a number like the page: 9,999 and 12.3k."""
    if value < 10000:
        return f"{value:,}"
    for unit in ["k", "M", "G", "T"]:
        value /= 1000
        if value < 999.5:
            break
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{unit}"


def number_in(text):
    return float(re.match(r"[0-9.]+", text).group())


class Check:
    def __init__(self, build):
        self.daemon = os.path.join(build, "gpuimgd")
        self.shots = os.path.join(build, "page")
        os.makedirs(self.shots, exist_ok=True)
        self.number, self.failures = 0, 0
        self.browser = None
        self.rig = rig.Rig(self.daemon, self.make_pictures(), "--metrics_listen=127.0.0.1:0",
                           "--workers=1", "--attempts=1")

    def close(self):
        if self.browser:
            self.browser.close()
        self.rig.close()
        shutil.rmtree(self.pictures)

    def make_pictures(self):
        self.pictures = os.path.join(self.shots, "in")
        os.makedirs(self.pictures, exist_ok=True)
        noise = random.Random(1)
        pixels = bytes(noise.randrange(256) for _ in range(320 * 240)) * 3
        subprocess.run(["cjpeg", "-outfile", os.path.join(self.pictures, "a.jpg")],
                       input=b"P6 320 240 255\n" + pixels, check=True)
        return self.pictures

    def find_address(self):
        found = re.search(r"metrics and status on (http://\S+)", self.rig.tail("daemon.log"))
        return found and found.group(1)

    # ---- the daemon ----

    def ask(self, path="status.json"):
        with urllib.request.urlopen(self.address + path, timeout=10) as answer:
            return json.load(answer)

    def push(self, jobs):
        self.rig.push(['{"input":"a.jpg","output":"%d.png","ops":["sobel"],"tag":"client-%d"}' %
                       (i, i % 10) for i in range(jobs)])

    def at_rest(self):
        status = self.ask()
        jobs = status["jobs"]
        ended = jobs["done"] + jobs["failed"] + jobs["dead"]
        return ended >= 123 and not jobs["in_flight"] and status

    # ---- the page ----

    def shown(self):
        return json.loads(self.browser.run(SHOWN))

    def shot(self, name):
        self.browser.screenshot(os.path.join(self.shots, name + ".png"))

    def drawn(self):
        """Returns the outlines of both charts."""
        return self.browser.run("""['#throughput .line-done', '#stages .stack'].map(name =>
          (document.querySelector(name) || document.body).getAttribute('d'))""")

    def fact(self, name, function):
        self.number += 1
        try:
            function()
            print(f"ok {self.number} - {name}", flush=True)
        except Exception:
            self.failures += 1
            print(f"not ok {self.number} - {name}", flush=True)
            for line in traceback.format_exc().splitlines()[-8:]:
                print(f"# {line}")

    # ---- facts ----

    def opens_drawn(self):
        """The first drawing covers more seconds than the page has been open."""
        rest = wait_until("all jobs done", self.at_rest)
        assert rest["jobs"]["done"] == 120, rest["jobs"]
        before = len(wait_until("seconds of history", self.fifteen_samples))
        self.browser.open(self.address)
        first = wait_until("a chart", lambda: self.browser.run("window.first"))
        assert first["points"] >= before - 2, (first, before)
        assert first["points"] - 1 > first["after_s"] + 3, first
        throughput = self.browser.run(
            "Math.max(...document.querySelector('#throughput').view.series[0].values)")
        assert throughput > 0, "the chart lacks the jobs done before it was opened"

    def fifteen_samples(self):
        samples = self.ask("history.json")["samples"]
        return len(samples) >= 15 and samples

    def values_are_the_jsons(self):
        rest = wait_until("all jobs done", self.at_rest)
        shown = wait_until("the page to show it", lambda: (
            lambda now: now["sample"]["generation"] >= rest["generation"] and now)(self.shown()))
        sample, jobs = shown["sample"], shown["sample"]["jobs"]
        for key in ("jobs", "errors", "error_counts", "began", "daemon"):
            assert sample[key] == rest[key], key
        tiles = {name: (value, more) for name, value, more in shown["tiles"]}
        ended = jobs["failed"] + jobs["dead"] + jobs["cancelled"]
        assert jobs["done"] == 120 and ended == 3, jobs
        assert tiles["Jobs"][1] == f"{count(jobs['done'])} done since start", tiles
        assert tiles["Queue"] == ("0 jobs", "0 redelivered"), tiles
        assert sample["redis"]["queue_oldest_s"] == rest["redis"]["queue_oldest_s"] == 0, rest
        assert tiles["In flight"][0] == f"0 of {jobs['in_flight_limit']}", tiles
        assert tiles["Not done"][0] == count(ended), tiles
        assert tiles["Not done"][1] == f"{jobs['dead']} dead, 0 cancelled", tiles
        assert shown["state"] == sample["state"] == "running", shown["state"]
        assert shown["redis"] == f"Redis {sample['redis']['version']}", shown["redis"]
        assert sample["daemon"] in shown["about"] and sample["version"] in shown["about"], shown
        for pool in sample["pools"]:
            figure = dict(shown["rows"])[pool["name"]]
            used, limit = (number_in(part) for part in figure.split(" of "))
            assert (used > 0) == (pool["used"] > 0), (figure, pool)
            assert str(pool["limit"]).startswith(str(int(limit))), (figure, pool)

    def errors_are_text(self):
        """Text of a job is shown literally, never as markup."""
        shown = self.shown()
        errors = shown["sample"]["errors"]
        assert len(shown["errors"]) == len(errors) == 3, shown["errors"]
        for row, error in zip(shown["errors"], errors):
            assert row[1:] == [f"{error['job']}, attempt {error['attempt']}", error["input"],
                               error["error"]["code"], error["error"]["message"]], row
        assert "<b>x</b>.jpg" in [row[2] for row in shown["errors"]], shown["errors"]
        assert shown["markup"] == 0

    def clients_are_shown(self):
        """The eight tags with the most work; here each has a tenth of the jobs."""
        rows = self.browser.run("""JSON.stringify([...document.querySelectorAll('#clients .row')]
          .map(row => [row.firstChild.textContent, row.lastChild.textContent]))""")
        rows = json.loads(rows)
        assert len(rows) == 8 and len(self.ask()["tags"]) == 10, rows
        for name, figure in rows:
            assert re.fullmatch("client-[0-9]", name) and figure == "12 done, 0 failed", rows

    def charts_move(self):
        before = self.drawn()
        assert all(before), before
        self.push(300)
        wait_until("jobs in the tile", lambda: number_in(self.shown()["tiles"][0][1]) > 0)
        wait_until("other charts", lambda: all(
            now != then for now, then in zip(self.drawn(), before)))
        assert "/s" in self.browser.run("document.title")

    def is_readable(self, scheme):
        self.browser.scheme(scheme)
        background = self.browser.run("getComputedStyle(document.body).backgroundColor")
        bright = sum(map(int, re.findall(r"\d+", background))) > 384
        assert bright == (scheme == "light"), background
        faint = self.browser.run(FAINT)
        self.shot(scheme)
        assert not faint, faint

    def fits(self, width):
        self.browser.size(width, 800)
        wait_until("charts of this width", lambda: self.browser.run(DRAWN_TO_SIZE))
        wide = self.browser.run(TOO_WIDE)
        self.shot(f"wide-{width}")
        assert not wide, wide

    def large_figures_fit(self):
        """The tiles of a fast daemon with a long queue, of which nothing is cut off."""
        texts = self.browser.run("""(() => {
          const tiles = document.getElementById('tiles');
          tiles.replaceChild(pixelTile({pixels: 17231e6, input: 1999e6, output: 17231e6}),
            tiles.children[1]);
          tiles.replaceChild(queueTile({queue: 1234567, queue_oldest_s: 86398.2}),
            tiles.children[2]);
          return [...tiles.querySelectorAll('.value, .more')].slice(2, 6).map(node =>
            (node.scrollWidth > node.clientWidth ? 'cut off: ' : '') + node.textContent);
        })()""")
        assert texts == ["17.2 GP/s", "2.00 GB/s in, 17.2 out", "1.23M jobs",
                         "oldest ≤ 23 h 59 min"], texts

    def policy_holds(self):
        assert self.browser.run("violations") == [], self.browser.run("violations")
        self.browser.run("""(() => {
          const script = document.createElement('script');
          script.textContent = 'window.injected = "a script"';
          const button = document.createElement('button');
          button.setAttribute('onclick', 'window.injected = "a handler"');
          const style = document.createElement('style');
          style.textContent = 'body { color: rgb(1, 2, 3) }';
          const image = document.createElement('img');
          image.src = '/healthz';
          document.body.append(script, button, style, image);
          button.click();
          fetch('http://127.0.0.1:1/').catch(() => {});
          [script, button, style, image].forEach(node => node.remove());
        })()""")
        wanted = {"script-src-elem", "script-src-attr", "style-src-elem", "img-src", "connect-src"}
        wait_until("five refusals", lambda: {
            one.split()[0] for one in self.browser.run("violations")} == wanted)
        assert self.browser.run("window.injected === undefined")
        assert self.browser.run("getComputedStyle(document.body).color") != "rgb(1, 2, 3)"
        assert len(self.browser.complaints()) >= 5  # one for each refusal

    def console_is_silent(self):
        complaints = self.browser.complaints()
        assert not complaints, complaints

    def loses_and_finds_the_daemon(self):
        lost = "document.body.classList.contains('lost')"
        port = self.address.rsplit(":", 1)[1].strip("/")
        began = self.shown()["sample"]["began"]
        self.rig.signal(signal.SIGTERM)
        self.rig.processes[-1].wait(30)
        wait_until("the page to notice the loss", lambda: self.browser.run(lost))
        notice = self.browser.run("document.getElementById('notice').innerText")
        assert "has not answered since" in notice, notice
        self.shot("lost")
        self.browser.size(900, 900)  # a new drawing must still show the loss
        wait_until("charts of this width", lambda: self.browser.run(DRAWN_TO_SIZE))
        assert self.browser.run(lost) and self.shown()["state"] == "no answer"
        self.rig.processes.pop()
        self.rig.pid = self.rig.start(
            [self.daemon, f"--redis=unix:{self.rig.folder}/redis.sock",
             f"--input_root={self.pictures}", f"--output_root={self.rig.out}", "--engine=cpu",
             f"--metrics_listen=127.0.0.1:{port}", "--workers=1"], "daemon.log")
        wait_until("the page to find it again", lambda: self.browser.run(f"!{lost}"))
        wait_until("the state", lambda: self.shown()["state"] == "running")
        assert self.shown()["sample"]["began"] != began
        wait_until("no notice", lambda: self.browser.run(
            "document.getElementById('notice').hidden"))
        assert all("Failed to load resource" in one for one in self.browser.complaints())

    def run(self):
        self.address = wait_until("the daemon's address", self.find_address)
        self.browser = Browser(self.rig.folder)
        self.browser.before_pages(OBSERVER)
        self.push(120)
        self.rig.push(['{"input":"<b>x</b>.jpg","output":"x.png"}', "no JSON",
                       '{"input":"%s.jpg","output":"x.png"}' % ("long" * 50)])
        self.browser.size(1280, 900)
        self.fact("the page opens with the last minutes drawn", self.opens_drawn)
        self.fact("the values are those of status.json", self.values_are_the_jsons)
        self.fact("errors are shown as text", self.errors_are_text)
        self.fact("the clients are shown by their tags", self.clients_are_shown)
        self.fact("the charts move", self.charts_move)
        self.fact("text has enough contrast in the light scheme", lambda: self.is_readable("light"))
        self.fact("text has enough contrast in the dark scheme", lambda: self.is_readable("dark"))
        for width in (320, 390, 768, 1280):
            self.fact(f"the page fits {width} pixels", lambda: self.fits(width))
        self.fact("large figures fit into the tiles", self.large_figures_fit)
        self.fact("the console has no errors", self.console_is_silent)
        self.fact("the content policy refuses injected code", self.policy_holds)
        Fleet(self, FAINT, TOO_WIDE).facts()
        self.browser.open(self.address)
        wait_until("the status page", lambda: self.browser.run("window.first"))
        self.fact("the page shows that the daemon is gone, and recovers",
                  self.loses_and_finds_the_daemon)
        print(f"1..{self.number}")
        return self.failures > 0


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build/release"
    for tool in ("redis-server", "cjpeg"):
        if not shutil.which(tool):
            print(f"ok - page # SKIP there is no {tool} here")
            return 77
    if not find():
        print("ok - page # SKIP there is no Chromium here")
        return 77
    os.environ.pop("NOTIFY_SOCKET", None)  # of a service that runs this script
    check = Check(build)
    try:
        return check.run()
    finally:
        check.close()


if __name__ == "__main__":
    sys.exit(main())
