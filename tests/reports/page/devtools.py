"""A real browser, driven through the DevTools protocol with the standard library alone."""

import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-port=0", "about:blank",
)  # fmt: skip


def browser_path() -> str | None:
    """Where a browser lies, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Socket:
    """As much of a websocket as one client needs: text out, text in."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._line = socket.create_connection((parts.hostname, parts.port), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        self._line.sendall(
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._stream = self._line.makefile("rb")
        assert b"101" in self._stream.readline()
        while self._stream.readline().strip():
            pass

    def send(self, text: str) -> None:
        content, mask = text.encode(), os.urandom(4)
        size = len(content)
        length = (
            bytes([128 | size]) if size < 126
            else bytes([128 | 126]) + struct.pack(">H", size) if size < 65536
            else bytes([128 | 127]) + struct.pack(">Q", size)
        )  # fmt: skip
        masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(content))
        self._line.sendall(b"\x81" + length + mask + masked)

    def receive(self) -> str:
        """The next text, put together from its pieces."""
        whole = b""
        while True:
            first, second = self._stream.read(2)
            size = second & 127
            if size >= 126:
                size = int.from_bytes(self._stream.read(2 if size == 126 else 8))
            content = self._stream.read(size)
            if first & 15 in (0, 1):
                whole += content
                if first & 128:
                    return whole.decode()

    def close(self) -> None:
        self._stream.close()
        self._line.close()


class Browser:
    """One browser with one page."""

    def __init__(self, path: str) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="gamagat-browser-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [path, f"--user-data-dir={self._home.name}", *FLAGS],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": self._home.name},
        )
        self._count, self.events = 0, []
        self._socket = Socket(self._address())
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _address(self) -> str:
        """Where the page listens; the browser writes its port into its folder."""
        port = Path(self._home.name) / "DevToolsActivePort"
        for _ in range(300):
            if port.exists() and (found := re.match(r"\d+", port.read_text())):
                with urlopen(f"http://127.0.0.1:{found[0]}/json") as answer:
                    pages = [page for page in json.load(answer) if page["type"] == "page"]
                if pages:
                    return pages[0]["webSocketDebuggerUrl"]
            time.sleep(0.1)
        raise TimeoutError("the browser did not start within 30 seconds")

    def call(self, method: str, **options: Any) -> dict[str, Any]:
        """Ask the browser for something and wait for the answer."""
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": options}))
        while True:
            answer = json.loads(self._socket.receive())
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def wait(self, method: str) -> None:
        """Wait for an event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(json.loads(self._socket.receive()))

    def open(self, path: Path, width: int = 1280, dark: bool = False, script: bool = True) -> float:
        """Open a file; the seconds until everything on it was loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        self.resize(width)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.events.clear()
        began = time.perf_counter()
        self.call("Page.navigate", url=path.absolute().as_uri())
        self.wait("Page.loadEventFired")
        return time.perf_counter() - began

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 600,
        )  # fmt: skip

    def media(self, media: str) -> None:
        self.call("Emulation.setEmulatedMedia", media=media)

    def run(self, expression: str) -> Any:
        """The value of an expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text
            )

    def complaints(self) -> list[str]:
        """Errors on the console, exceptions, and requests that leave the page."""
        found = []
        for event in self.events:
            method, given = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown" or (
                method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning")
            ):
                found.append(json.dumps(given))
            if method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(given))
            if method == "Network.requestWillBeSent" and not given["request"]["url"].startswith(
                ("data:", "file:")
            ):
                found.append(given["request"]["url"])
        return found

    def picture(self, path: Path, whole: bool = True) -> None:
        """What the page looks like, in a file."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._home.cleanup()
