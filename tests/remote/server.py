#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server of models for tests: ranges, and everything that servers do wrong.

server.py DIRECTORY PORT_FILE [TLS_CERT TLS_KEY], at the ports in PORT_FILE if it is there, serves the files of DIRECTORY below every /MODE/
and the files of DIRECTORY/model as the Hub's models ORG/MODE.  It logs each request to PORT_FILE.log.  Words of MODE, joined by '.':

good            ranges, ETag
slow            10 MB/s for each connection
cut             ends every answer after 100,000 bytes
busy            answers 503 or 429 to every other request for a file
plain           ignores ranges
shifted         sends the range that begins one byte later
liar            its Content-Range is of another range than asked for
short           promises the range and sends half of it, always
changes         the ETag is another one after 16 answers
grows           the size in Content-Range grows after 16 answers
noversion       neither ETag nor Last-Modified
encoded         the tokenizer comes as it is stored there: compressed, with its Content-Encoding
drip            sends one byte of each range of weights, and closes the connection
patient         answers 503 to every other request for a file, and asks for a wait of 10^21 seconds
longline        a line of 10 MB in its header
manylines       a header of 20,000 lines
deep            the Hub's list has a file below 2,000 directories
signed          redirects weights to http, with a signature in the address
moved           redirects to /good/
circle          redirects to itself
away            redirects to http
expires         an address of weights to which the Hub leads is valid for half a second
"""
import gzip
import hashlib
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

lock = threading.Lock()
count = {}


def relay(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def folder_of(repo):
    name = repo.split("/")[1]
    return name if os.path.isdir(os.path.join(root, name)) else "model"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def number(self, mode):
        with lock:
            count[mode] = count.get(mode, 0) + 1
            return count[mode]

    def log(self, status, n=0):
        with lock, open(port_file + ".log", "a", encoding="utf-8") as log:
            token = self.headers.get("Authorization", "-").replace("Bearer ", "")
            print(self.server.server_port, self.path, self.headers.get("Range", "-"), token,
                  status, n, file=log)

    def do_CONNECT(self):
        """As a proxy: whatever host is asked for, the server with TLS of the same folder answers."""
        self.log(200)
        with open(os.path.join(root, "tls-port"), encoding="utf-8") as text:
            port = int(text.read().split()[0])
        self.close_connection = True
        with socket.create_connection(("127.0.0.1", port)) as far:
            self.send_response(200)
            self.end_headers()
            threading.Thread(target=relay, args=(far, self.connection), daemon=True).start()
            relay(self.connection, far)

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if path.startswith("/api/models/"):
            return self.hub_list(path)
        match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([0-9a-f]{40})/(.*)", path)
        if match:
            return self.hub_file(match[1], match[3])
        _, mode, name = path.split("/", 2)
        return self.file(mode.split("."), mode, name)

    def hub_list(self, path):
        """ORG/NAME: NAME is the mode that its files come in, or of a folder other than model; ORG 'private' needs a token."""
        repo, revision = path[len("/api/models/"):].split("/revision/")
        if repo.startswith("private/") and self.headers.get("Authorization") != "Bearer secret":
            self.log(401)
            return self.reply(401)
        if revision not in ("main", "refs/pr/1"):
            self.log(404)
            return self.reply(404)
        model = os.path.join(root, folder_of(repo))
        names = sorted(os.path.relpath(os.path.join(place, name), model)
                       for place, _, found in os.walk(model) for name in found)
        body = json.dumps({"sha": "0123456789abcdef0123456789abcdef01234567", "siblings": [
            {"rfilename": name, "size": os.path.getsize(os.path.join(model, name))}
            for name in names]})
        if "deep" in repo:
            body = body.replace('"README.md"', json.dumps("a/" * 2000 + "README.md"))
        body = body.encode()
        self.log(200, len(body))
        return self.reply(200, [("Content-Type", "application/json")], body)

    def hub_file(self, repo, name):
        """Weights are on another port, as on the Hub, at an address that expires."""
        if repo.startswith("private/") and self.headers.get("Authorization") != "Bearer secret":
            self.log(401)
            return self.reply(401)
        mode = repo.split("/")[1]
        if not name.endswith(".safetensors"):
            return self.file(mode.split("."), mode, f"{folder_of(repo)}/{name}")
        self.log(302)
        place = f"{scheme}://127.0.0.1:{other_port}/{mode}/{folder_of(repo)}/{urllib.parse.quote(name)}"
        return self.reply(302, [("Location", place + f"?until={time.time() + 0.5}")])

    def file(self, words, mode, name):
        full = os.path.join(root, name)
        until = re.search(r"until=([0-9.]+)", self.path)
        if "moved" in words:
            self.log(302)
            return self.reply(302, [("Location", f"/good/{urllib.parse.quote(name)}")])
        if "away" in words:
            self.log(302)
            return self.reply(302, [("Location", f"http://127.0.0.1:{other_port}/good/{name}")])
        if "signed" in words and name.endswith("safetensors"):
            self.log(302)
            return self.reply(302, [("Location", f"http://127.0.0.1:{other_port}/good/{name}?X-Amz-Signature=SECRET")])
        if "circle" in words:
            self.log(302)
            return self.reply(302, [("Location", self.path)])
        if "expires" in words and until and time.time() > float(until[1]):
            self.log(403)
            return self.reply(403)
        if not os.path.isfile(full):
            self.log(404)
            return self.reply(404, body=b"no such file")
        n = self.number(mode)
        if "busy" in words and n % 2:
            self.log(503 if n % 4 == 1 else 429)
            return self.reply(503 if n % 4 == 1 else 429)
        if "patient" in words and n % 2:
            self.log(503)
            return self.reply(503, [("Retry-After", "1" + "0" * 21)])
        return self.range(words, full, n)

    def range(self, words, full, n):
        size = os.path.getsize(full)
        changed = n > 16
        version = hashlib.sha256(f"{full} {size}".encode()).hexdigest()[:16]
        if "changes" in words and changed:
            version = "changed"
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        headers = [] if "noversion" in words else [("ETag", f'"{version}"')]
        if "longline" in words:
            headers.append(("X-Filler", "x" * 10000000))
        if "manylines" in words:
            headers += [(f"X-Filler-{i}", "x" * 20) for i in range(20000)]
        if "encoded" in words and full.endswith("tokenizer.json"):
            headers.append(("Content-Encoding", "gzip"))
            with open(full, "rb") as plain:
                data = gzip.compress(plain.read(), 0, mtime=0)
            full = os.path.join(root, "encoded.gz")
            with open(full, "wb") as packed:
                packed.write(data)
            size = len(data)
        if size == 0 and match:
            self.log(416)
            return self.reply(416, [("Content-Range", "bytes */0")])
        first, end = (int(match[1]), min(int(match[2]) + 1, size)) if match else (0, size)
        if "plain" in words:
            first, end, match = 0, size, None
        shown, total = first, size
        if "shifted" in words and first:
            first, end = first + 1, min(end + 1, size)
            shown = first
        if "liar" in words and first:
            shown = first - 1
        if "grows" in words and changed:
            total = size + 1
        if match:
            headers.append(("Content-Range", f"bytes {shown}-{shown + end - first - 1}/{total}"))
        self.send_response(206 if match else 200)
        for header, value in headers:
            self.send_header(header, value)
        self.send_header("Content-Length", str(end - first))
        self.end_headers()
        send = end - first
        if "cut" in words:
            send = min(send, 100000)
        if "drip" in words and first:
            send = min(send, 1)
        if "short" in words and first:
            send = send // 2 if send > 100 else 0
        self.log(206 if match else 200, send)
        self.body(words, full, first, send)
        if send < end - first:
            self.close_connection = True
        return None

    def body(self, words, full, first, send):
        with open(full, "rb") as file:
            file.seek(first)
            try:
                while send:
                    chunk = file.read(min(send, 65536))
                    self.wfile.write(chunk)
                    send -= len(chunk)
                    if "slow" in words:
                        time.sleep(len(chunk) / 10e6)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True


def serve(port):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that closes its connection
    if len(sys.argv) > 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3], sys.argv[4])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


class Server:
    """This program as a process, which serves what is below work."""

    def __init__(self, work: Path, name: str, *tls: str):
        self.port_file = work / name
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(work), str(self.port_file), *tls])
        while not self.port_file.exists():
            if self.process.poll() is not None:
                sys.exit("the server did not start")
            time.sleep(0.02)
        self.port, self.other = map(int, self.port_file.read_text().split())
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"

    def log(self) -> list[list[str]]:
        path = Path(f"{self.port_file}.log")
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


if __name__ == "__main__":
    root, port_file = sys.argv[1:3]
    scheme = "https" if len(sys.argv) > 3 else "http"
    ports = [0, 0]
    if os.path.exists(port_file):
        with open(port_file, encoding="utf-8") as before:
            ports = [int(port) for port in before.read().split()]
    servers = [serve(port) for port in ports]
    other_port = servers[1].server_port
    threading.Thread(target=servers[1].serve_forever, daemon=True).start()
    with open(port_file + ".tmp", "w", encoding="utf-8") as text:
        print(servers[0].server_port, other_port, file=text)
    os.rename(port_file + ".tmp", port_file)
    servers[0].serve_forever()
