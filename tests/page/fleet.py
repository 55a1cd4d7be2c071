"""Facts about the fleet page for check_page.py: a live daemon, and hostile and dead ones in Redis."""
import json
import time

from browser import wait_until

HOSTILE = "<img src=x onerror=window.injected=1>"
SHOWN = """JSON.stringify({
  state: document.getElementById('state').textContent,
  notice: document.getElementById('notice').hidden ? '' : document.getElementById('notice').textContent,
  tiles: [...document.querySelectorAll('.tile')].map(one =>
    ['name', 'value', 'more'].map(part => one.querySelector('.' + part).textContent)),
  rows: [...document.querySelectorAll('#daemons tbody tr')].map(row =>
    [...row.cells].map(cell => cell.textContent)),
  pager: document.getElementById('pager').textContent,
  markup: document.querySelectorAll('#daemons img, #daemons script, #daemons b, #daemons i').length,
  injected: window.injected === undefined ? 0 : 1,
})"""


class Fleet:
    def __init__(self, check, faint, too_wide):
        self.check, self.faint, self.too_wide = check, faint, too_wide
        self.redis = check.rig.client

    def shown(self):
        wait_until("the fleet", lambda: self.check.browser.run("!!window.shown"))
        return json.loads(self.check.browser.run(SHOWN))

    def put(self, name, stats, left_s=1000):
        instance = f"{name}:boot:ns:{abs(hash(name)) % 99999 + 1}:9"
        self.redis("ZADD", "gpuimgd:inst", str(int((time.time() + left_s) * 1000)), instance)
        if stats is not None:
            self.redis("SET", f"gpuimgd:stats:{instance}", stats, "PX", "25000")

    def put_all(self):
        self.put("idle", json.dumps({
            "version": "0.2.0", "lease_s": 30, "state": "running", "engine": "cuda:0", "up_s": 90061,
            "jobs_s": 1234.5, "pixels_s": 5e9, "in_flight": 3, "done": 123456, "failed": 7, "dead": 1,
            "devices": [{"name": f"cuda:{i}"} for i in range(8)]}))
        self.put("short", json.dumps({
            "version": "0.2.0", "lease_s": 30, "state": "running", "engine": "cpu", "workers": 8,
            "blocked": {"by": "pinned", "for_s": 75, "why": "a job waits for 300.0 MB of pinned memory",
                        "advice": "Raise pinned_bytes if this lasts."}}))
        self.put(HOSTILE, json.dumps({
            "version": HOSTILE, "state": "<b>x</b>", "engine": ["x"], "up_s": -1, "jobs_s": 1e308,
            "pixels_s": "7", "in_flight": {}, "blocked": {"by": "<i>", "for_s": 99, "why": "</td>" + HOSTILE},
            "devices": [{"name": HOSTILE}, 7, {"name": {}}]}))
        self.put("late", json.dumps({"version": "0.2.0", "lease_s": 60, "state": "running"}))
        self.put("none", None)
        self.put("nojson", "{\"version\":")
        self.put("huge", json.dumps({"version": "x" * 100000}))
        self.put("list", "[1,2]")
        self.put("deep", "[" * 5000)
        self.put("mojibake", b"{\"version\":\"\xff\xfe\"}")
        self.put("lost", None, left_s=-40)

    def rows_are_the_daemons(self):
        """Each daemon has a row; the dead one, the silent ones and the blocked ones come first."""
        self.put_all()
        self.check.browser.open(self.check.address + "fleet")
        shown = wait_until("twelve daemons", lambda: (
            lambda now: len(now["rows"]) == 12 and now)(self.shown()))
        rows = {row[0].split(":")[0].split("<")[0]: row for row in shown["rows"]}
        assert shown["rows"][0][0].startswith("lost:"), shown["rows"][0]
        assert shown["rows"][0][1] == "dead" and "name has expired" in shown["rows"][0][0]
        assert int(shown["rows"][0][11].split()[0]) >= 1, shown["rows"][0]
        for name in ("none", "nojson", "huge", "list", "deep", "mojibake"):
            assert rows[name][1] == "silent", rows[name]
        assert rows["late"][1] == "late", rows["late"]
        assert rows["short"][1] == "short of pinned", rows["short"]
        assert "For 1 min 15 s: a job waits for 300.0 MB of pinned memory. Raise pinned_bytes" in \
            rows["short"][0], rows["short"]
        assert rows["idle"][1:11] == ["running", "0.2.0", "8 devices, cuda:0 to cuda:7", "1,235", "5,000",
                                      "3", "123k", "7", "1", "1 d 1 h"], rows["idle"]
        tiles = {name: (value, more) for name, value, more in shown["tiles"]}
        assert tiles["Daemons"] == ("11 alive", "1 dead"), tiles
        assert shown["state"] == "10 in trouble", shown["state"]
        own = next(row for row in shown["rows"] if row[1] == "running" and "cpu, 1 worker" == row[3])
        assert own[2] == "0.2.0" and own[7] == self.done(), own

    def done(self):
        return f"{self.check.ask()['jobs']['done']:,}"

    def heartbeats_are_text(self):
        shown = self.shown()
        assert shown["markup"] == 0 and shown["injected"] == 0, shown
        row = next(row for row in shown["rows"] if row[0].startswith(HOSTILE[:20]))
        assert row[2] == HOSTILE and HOSTILE in row[0] and row[1] == "<b>x</b>", row
        assert self.check.browser.run("violations") == []
        assert not self.check.browser.complaints()

    def is_readable(self, scheme):
        self.check.browser.scheme(scheme)
        faint = self.check.browser.run(self.faint)
        self.check.shot(f"fleet-{scheme}")
        assert not faint, faint

    def fits(self, width):
        self.check.browser.size(width, 900)
        time.sleep(0.3)
        wide = self.check.browser.run(self.too_wide)
        self.check.shot(f"fleet-{width}")
        assert not wide, wide

    def pages_of_many(self):
        """1,200 daemons: twelve pages and more, each by one call; the page links to the next."""
        for i in range(1200):
            self.put(f"many{i:04d}", json.dumps({"state": "running", "version": "0.2.0", "jobs_s": 1}))
        fleet = wait_until("many daemons", lambda: (
            lambda now: now["names"] >= 1212 and now)(self.check.ask("fleet.json")))
        assert fleet["pages"] == 13 and len(fleet["daemons"]) == 100, fleet["pages"]
        assert [one["name"] for one in fleet["daemons"]] == sorted(one["name"] for one in fleet["daemons"])
        self.check.browser.open(self.check.address + "fleet?page=3")
        wait_until("page 4", lambda: "page 4 of 13" in self.shown()["pager"])
        assert len(self.shown()["rows"]) == 100
        self.check.shot("fleet-many")
        self.views_of_others_do_no_harm()
        wait_until("no daemon past the end", lambda: (
            lambda now: now and now["daemons"] == [])(self.last_page()))
        self.redis("DEL", "gpuimgd:inst")

    def views_of_others_do_no_harm(self):
        """Somebody views other pages: the page gets 503 about half of the time, and asks again."""
        before, refusals = self.check.browser.run("window.answers"), []
        for i in range(60):
            self.last_page(5 + i % 2)
            for _ in range(5):
                time.sleep(0.1)
                assert self.shown()["notice"] == "", self.shown()["notice"]
            refusals += self.check.browser.complaints()
            if len(refusals) > 2 and self.check.browser.run("window.answers") > before + 1:
                break
        else:
            raise AssertionError(f"{len(refusals)} refusals in 30 s")
        assert all("503" in one for one in refusals), refusals

    def last_page(self, page=9999):
        try:
            return self.check.ask(f"fleet.json?page={page}")
        except OSError:  # 503: another page was read a moment ago
            return None

    def facts(self):
        fact = self.check.fact
        fact("the fleet page has a row per daemon", self.rows_are_the_daemons)
        fact("heartbeats are shown as text", self.heartbeats_are_text)
        for scheme in ("dark", "light"):
            fact(f"the fleet page has enough contrast in the {scheme} scheme",
                 lambda: self.is_readable(scheme))
        for width in (320, 390, 768, 1280):
            fact(f"the fleet page fits {width} pixels", lambda: self.fits(width))
        fact("a large fleet has pages", self.pages_of_many)
