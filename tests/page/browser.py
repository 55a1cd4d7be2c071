"""browser.py - controls a headless Chromium over its debugging pipe (DevTools protocol)."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

WAIT_S = 30


def find():
    """Returns the path of $CHROMIUM, or of chromium, or None."""
    return shutil.which(os.environ.get("CHROMIUM", "chromium"))


def wait_until(what, condition, seconds=WAIT_S):
    """Polls until condition() is true and returns its value; raises with `what` after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


class Browser:
    """One page. Events are kept by method name in `events`."""

    def __init__(self, folder):
        # Chromium reads commands from descriptor 3 and writes replies to 4.
        command_read, self.commands = os.pipe()
        self.answers, answer_write = os.pipe()
        high = [os.dup2(command_read, 63), os.dup2(answer_write, 64)]
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        profile = tempfile.mkdtemp(prefix="profile-", dir=folder)
        with open(os.path.join(folder, "chromium.log"), "wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", 'exec "$@" 3<&63 4>&64 63<&- 64>&-', "bash", find(), *sandbox,
                 "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}",
                 "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
                 "--disable-background-networking", "--hide-scrollbars", "about:blank"],
                pass_fds=high, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for fd in [command_read, answer_write, *high]:
            os.close(fd)
        self.buffer, self.number, self.replies, self.events = b"", 0, {}, {}
        self.session = None
        target = wait_until("a page", self.page)
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def page(self):
        targets = self.call("Target.getTargets")["targetInfos"]
        return next((one["targetId"] for one in targets if one["type"] == "page"), None)

    def close(self):
        os.close(self.commands)  # tells the browser to exit
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)

    def read(self, seconds):
        """Reads the messages that have arrived; waits at most `seconds` for the first."""
        if not select.select([self.answers], [], [], seconds)[0]:
            return
        data = os.read(self.answers, 1 << 16)
        if not data:
            raise AssertionError("Chromium has exited; see chromium.log")
        *messages, self.buffer = (self.buffer + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.replies[message["id"]] = message
            else:
                self.events.setdefault(message["method"], []).append(message["params"])

    def call(self, method, **params):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + WAIT_S
        while number not in self.replies:
            self.read(1)
            if time.monotonic() > end:
                raise AssertionError(f"{method}: no answer in {WAIT_S} s")
        reply = self.replies.pop(number)
        if "error" in reply:
            raise AssertionError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def run(self, script):
        """Returns the value of an expression; awaits a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def before_pages(self, script):
        """Runs the script in every new page before its own scripts, despite its policy."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, address):
        self.call("Page.navigate", url=address)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path):
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(image))

    def complaints(self):
        """Returns the console's errors and warnings, and exceptions, since the last call."""
        self.run("0")  # earlier events have arrived then
        found = []
        for event in self.events.pop("Runtime.exceptionThrown", []):
            found.append(event["exceptionDetails"]["text"])
        for event in self.events.pop("Runtime.consoleAPICalled", []):
            if event["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(arg.get("value")) for arg in event["args"]))
        for event in self.events.pop("Log.entryAdded", []):
            if event["entry"]["level"] in ("error", "warning"):
                found.append(event["entry"]["text"])
        return found
