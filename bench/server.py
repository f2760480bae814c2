"""Serves a directory with nginx on loopback, over HTTP and HTTPS, during a `with` statement."""

import os
import re
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

START_TIMEOUT_SECONDS = 10

# A single process without a master, so that stopping it leaves no other processes behind.
# Connections have no limit of requests: with nginx's default of 1,000, wget2 over HTTP/2 misses a third of the pages of a big
# site, different ones in every run.
CONFIGURATION = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/error.log crit;
events {{ worker_connections 1024; }}
http {{
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    log_format responses '$status "$sent_http_content_type" $request_uri';
    access_log {access_log};
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_body_temp_path {directory}/temporary;
    proxy_temp_path {directory}/temporary;
    fastcgi_temp_path {directory}/temporary;
    uwsgi_temp_path {directory}/temporary;
    scgi_temp_path {directory}/temporary;
    server {{
        listen 127.0.0.1:{http};
        listen 127.0.0.1:{https} ssl http2;
        ssl_certificate {directory}/server.pem;
        ssl_certificate_key {directory}/server.key;
        root {root};
    }}
}}
"""


# nginx logs a response after it has sent it, so the client may finish first.
LOG_DELAY_SECONDS = 0.2

# The log line of a page. Plain text is a page too.
PAGE = re.compile(r'200 "text/(?:html|plain)\b[^"]*" (\S+)')


@dataclass(frozen=True)
class Server:
    urls: dict[str, str]
    authority: Path
    log: Path | None

    def pages_since_last_call(self) -> list[str]:
        """The path and query of each response with a page since the last call. The server must keep a log."""
        time.sleep(LOG_DELAY_SECONDS)
        responses = self.log.read_text(errors="replace").splitlines()
        # nginx appends, so it continues at the new end.
        os.truncate(self.log, 0)
        return [page[1] for response in responses if (page := PAGE.fullmatch(response))]


@contextmanager
def serve(root: Path, directory: Path, keep_log: bool = False) -> Iterator[Server]:
    """Serves `root`. The configuration, the certificate and the logs are in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = make_certificate(directory)
    http, https = free_ports(2)
    configuration = directory / "nginx.conf"
    responses = directory / "access.log" if keep_log else None
    if responses:
        # An earlier run may have been interrupted.
        responses.write_text("")
    configuration.write_text(CONFIGURATION.format(
        directory=directory, root=root, http=http, https=https, access_log=f"{responses} responses" if responses else "off"))
    log = directory / "error.log"
    nginx = subprocess.Popen(["nginx", "-e", log, "-c", configuration])
    try:
        wait_until_serving(nginx, https, log)
        urls = {"http": f"http://127.0.0.1:{http}/", "https": f"https://127.0.0.1:{https}/"}
        yield Server(urls, authority, responses)
    finally:
        nginx.terminate()
        nginx.wait()


def make_certificate(directory: Path) -> Path:
    """Creates a certificate authority and a server certificate. Strict clients reject a self-signed server certificate."""
    authority, authority_key = directory / "authority.pem", directory / "authority.key"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    commands = [
        [*request, "-subj", "/CN=benchmark authority", "-keyout", authority_key, "-out", authority],
        [*request, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE", "-CA", authority, "-CAkey", authority_key,
         "-keyout", directory / "server.key", "-out", directory / "server.pem"],
    ]
    for command in commands:
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return authority


def free_ports(number: int) -> list[int]:
    """Distinct free ports. Another process may take one before it is used."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [bound.getsockname()[1] for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports


def wait_until_serving(nginx: subprocess.Popen, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while nginx.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise RuntimeError(f"nginx does not respond; {log}: {log.read_text() if log.exists() else 'missing'}")
