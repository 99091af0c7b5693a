# SPDX-License-Identifier: Apache-2.0
"""The rows of run.py that read a model from a server: nginx on 127.0.0.1, files in memory, against curl on the same bytes."""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from table import Row, ratios, remove

RANGES = 8  # connections, as many as fp8conv has
CONFIG = """{user}
daemon off;
worker_processes auto;
pid {place}/pid;
error_log {place}/error.log;
events {{}}
http {{
	access_log off;
	sendfile on;
	tcp_nopush on;
	client_body_temp_path {place}/body;
	proxy_temp_path {place}/proxy;
	fastcgi_temp_path {place}/fastcgi;
	uwsgi_temp_path {place}/uwsgi;
	scgi_temp_path {place}/scgi;
	server {{
		listen 127.0.0.1:{port};
		root {root};
	}}
}}
"""


def find_nginx() -> str | None:
    """Debian puts it where only root's PATH looks."""
    return shutil.which("nginx", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")


@contextlib.contextmanager
def nginx(program: str, root: Path, place: Path):
    """Serves the files of root; yields the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place.mkdir()
    config = place / "nginx.conf"
    # As root its workers would be another user, who may not look into root's temporary folders.
    config.write_text(CONFIG.format(place=place, port=port, root=root, user="" if os.getuid() else "user root;"))
    process = subprocess.Popen([program, "-p", place, "-e", place / "error.log", "-c", config])
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    break
            if process.poll() is not None:
                sys.exit(f"run.py: nginx ended: {(place / 'error.log').read_text()}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
        remove(place)


def by_ranges(address: str, size: int, out: Path) -> list[object]:
    """Curls that read a part each, at the same time."""
    step = -(-size // RANGES)
    script = ('mkdir "$2"; i=0; while [ $i -lt $3 ]; do curl -sf -r $((i * $4))-$((i * $4 + $4 - 1)) -o "$2/$i" "$1" & '
              'i=$((i + 1)); done; wait')
    return ["sh", "-c", script, "sh", address, out, RANGES, step]


def remote(bench) -> None:
    """Bytes of the model a second, whole processes."""
    what, program = "models on a server", find_nginx()
    if not program or not shutil.which("curl"):
        bench.table.skip("remote", what, "no nginx or no curl (Debian: nginx-light, curl)")
        return
    if not bench.has_room(bench.tmpfs, 5, "remote", what):
        return
    size = ["-l", "4", "-h", "1024", "-i", "4096"] if bench.options.quick else ["-l", "10"]
    model, out = bench.model(bench.tmpfs, "remote", *size), bench.tmpfs / "out"
    weights = model / "model.safetensors"
    n_bytes = weights.stat().st_size
    with nginx(program, bench.tmpfs, bench.tmpfs / "nginx") as server:
        address = f"{server}/{model.name}"
        file = f"{address}/{weights.name}"
        inspect = [bench.fp8conv, "inspect", "--stats", "--quiet"]
        commands = {"curl -o": ["curl", "-sf", "-o", out, file],
                    f"{RANGES} ranges by curl": by_ranges(file, n_bytes, out),
                    "quantize": bench.quantize(address, out, "--recipe", "blockwise"),
                    "quantize, files in memory": bench.quantize(model, out, "--recipe", "blockwise"),
                    "inspect --stats": [*inspect, address]}
        rans = bench.in_turn(commands, out, bench.runs)
    bench.forget(bench.tmpfs, "remote")
    rates = {name: [n_bytes / 1e9 / ran.seconds for ran in found] for name, found in rans.items()}
    for name, target in ((f"{RANGES} ranges by curl", ""), ("quantize", ">= 0.9"), ("inspect --stats", ">= 0.9")):
        bench.table.add(Row("remote", f"from a server, {name}", "GB/s", rates[name], "curl -o", rates["curl -o"],
                            ratios(rates[name], rates["curl -o"]), target, "tmpfs"))
    slower = [min(pair) for pair in zip(rates["curl -o"], rates["quantize, files in memory"])]
    bench.table.add(Row("remote", "from a server, quantize", "GB/s", rates["quantize"],
                        "the slower of curl -o and quantize of files", slower, ratios(rates["quantize"], slower), cache="tmpfs"))
