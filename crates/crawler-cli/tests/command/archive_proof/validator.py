"""Checks every rule that the WARC files of the crawler keep: validator.py [--secret TEXT]... [--any-order] FILE...

The files are those of one archive, in order. It prints a JSON object for each record, and exits with status 1 and a line for each
violation on standard error. A revisit refers to an earlier record; with --any-order, which is for merged archives, to any record. It uses nothing of other WARC libraries, whose leniency would hide defects.
"""
import base64
import hashlib
import ipaddress
import json
import os
import re
import sys
import zlib

ID = re.compile(r"<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}>")
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z")
URI = re.compile(r"https?://[^\s<>#@]+(?:/[^\s<>#]*)?")
PROFILES = {
    "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
    "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
}
TRUNCATIONS = {"length", "time", "disconnect", "unspecified"}
HTTP_RESPONSE = "application/http;msgtype=response"
HTTP_REQUEST = "application/http;msgtype=request"
CONDITIONS = {"if-none-match", "if-modified-since"}
SECRET_HEADERS = {"authorization", "cookie", "proxy-authorization"}

violations = []


def sha1(data):
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def members(path):
    """The decoded bytes of each gzip member, or the file itself if it is not compressed."""
    data = open(path, "rb").read()
    if not path.endswith(".gz"):
        yield 0, data
        return
    offset = 0
    while offset < len(data):
        decoder, decoded, end = zlib.decompressobj(31), [], offset
        try:
            while not decoder.eof and end < len(data):
                decoded.append(decoder.decompress(data[end:end + 65536]))
                end = min(end + 65536, len(data))
        except zlib.error as error:
            violations.append(f"{path}:{offset}: damaged member: {error}")
            return
        if not decoder.eof:
            violations.append(f"{path}:{offset}: truncated member")
            return
        yield offset, b"".join(decoded)
        offset = end - len(decoder.unused_data)


def records(path):
    """The header, the block and the place of each record."""
    for offset, data in members(path):
        is_member, start = path.endswith(".gz"), 0
        while start < len(data) or (is_member and start == 0):
            place = f"{path}:{offset + (0 if is_member else start)}"
            end = data.find(b"\r\n\r\n", start)
            if end < 0:
                violations.append(f"{place}: the header does not end")
                return
            header = parse(data[start:end], place)
            length = header.get("content-length", "")
            if not length.isdigit():
                violations.append(f"{place}: Content-Length {length!r}")
                return
            block_start = end + 4
            block_end = block_start + int(length)
            if data[block_end:block_end + 4] != b"\r\n\r\n":
                violations.append(f"{place}: no two empty lines after the block, or it is truncated")
                return
            yield place, header, data[block_start:block_end]
            start = block_end + 4
            if is_member and start != len(data):
                violations.append(f"{place}: the member has more than one record")
                return
            if is_member:
                break


def parse(data, place):
    lines = data.decode("utf-8").split("\r\n")
    if lines[0] != "WARC/1.1":
        violations.append(f"{place}: version {lines[0]!r}")
    header = {}
    for line in lines[1:]:
        name, colon, value = line.partition(": ")
        if not colon or "\n" in line or "\r" in line or not re.fullmatch("[A-Za-z-]+", name) or value != value.strip():
            violations.append(f"{place}: header line {line!r}")
        if name.lower() in header:
            violations.append(f"{place}: {name} twice")
        header[name.lower()] = value
    return header


def http_head(block, place):
    """The first line, the headers and the body of an HTTP message."""
    head, separator, body = block.partition(b"\r\n\r\n")
    if not separator:
        violations.append(f"{place}: the HTTP head does not end with an empty line")
    lines = head.decode("latin-1").split("\r\n")
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon and not line.startswith((" ", "\t")):
            violations.append(f"{place}: HTTP header line {line!r}")
        headers.append((name.lower(), value.strip()))
    return lines[0], headers, body


class Archive:
    def __init__(self, secrets, is_ordered):
        self.secrets = secrets
        self.is_ordered = is_ordered
        # The checks of revisits that refer to what may follow.
        self.unchecked = []
        self.ids = set()
        self.responses = {}
        # The payload of each capture, which a revisit has from the record that it refers to.
        self.payloads = {}
        self.pending = None
        self.mismatch = None

    def fail(self, place, what):
        violations.append(f"{place}: {what}")

    def check(self, path):
        for number, (place, header, block) in enumerate(records(path)):
            self.common(place, header, block)
            kind = header.get("warc-type")
            if (number == 0) != (kind == "warcinfo"):
                self.fail(place, f"record {number} is a {kind}")
            if kind == "warcinfo":
                self.warcinfo(place, header, block, path)
            elif kind in ("response", "revisit"):
                self.response(place, kind, header, block)
            elif kind == "request":
                self.request(place, header, block)
            else:
                self.fail(place, f"type {kind}")
        if self.pending:
            self.fail(path, "the last response has no request")

    def common(self, place, header, block):
        record_id = header.get("warc-record-id", "")
        if not ID.fullmatch(record_id):
            self.fail(place, f"WARC-Record-ID {record_id!r}")
        if record_id in self.ids:
            self.fail(place, f"WARC-Record-ID {record_id} is not unique")
        self.ids.add(record_id)
        if not DATE.fullmatch(header.get("warc-date", "")):
            self.fail(place, f"WARC-Date {header.get('warc-date')!r}")
        if header.get("warc-block-digest") != sha1(block):
            self.fail(place, "WARC-Block-Digest")
        if header.get("warc-truncated", "length") not in TRUNCATIONS:
            self.fail(place, f"WARC-Truncated {header['warc-truncated']}")
        text = "\n".join(header.values()).encode() + block
        for secret in self.secrets:
            if secret.encode() in text:
                self.fail(place, f"it has the secret {secret!r}")
        if header.get("warc-type") != "warcinfo":
            uri = header.get("warc-target-uri", "")
            if not URI.fullmatch(uri):
                self.fail(place, f"WARC-Target-URI {uri!r}")
            try:
                ipaddress.ip_address(header.get("warc-ip-address", ""))
            except ValueError as error:
                self.fail(place, f"WARC-IP-Address: {error}")

    def warcinfo(self, place, header, block, path):
        if header.get("warc-filename") != os.path.basename(path):
            self.fail(place, f"WARC-Filename {header.get('warc-filename')!r}")
        if header.get("content-type") != "application/warc-fields" or "warc-target-uri" in header:
            self.fail(place, "a warcinfo with another type, or a URI")
        fields = dict(line.split(": ", 1) for line in block.decode().strip("\r\n").split("\r\n"))
        for name in ("software", "format", "robots"):
            if not fields.get(name):
                self.fail(place, f"the warcinfo has no {name}")

    def response(self, place, kind, header, block):
        if self.pending:
            self.fail(place, "the response before has no request")
        self.mismatch = None
        line, headers, body = http_head(block, place)
        match = re.fullmatch(r"HTTP/1\.[01] (\d{3})(?: .*)?", line)
        if not match or header.get("content-type", "").replace(" ", "") != HTTP_RESPONSE:
            self.fail(place, f"no HTTP response: {line!r} {header.get('content-type')!r}")
        status = int(match.group(1)) if match else 0
        if any(name == "transfer-encoding" for name, _ in headers):
            self.fail(place, "Transfer-Encoding")
        digest = header.get("warc-payload-digest")
        entry = {"id": header.get("warc-record-id"), "type": kind, "url": header.get("warc-target-uri"), "status": status, "bytes": len(body),
                 "date": header.get("warc-date"), "truncated": header.get("warc-truncated"),
                 "protocol": header.get("warc-protocol"), "headers": [name for name, _ in headers]}
        if kind == "response":
            if digest != sha1(body):
                self.fail(place, "WARC-Payload-Digest")
            declared = dict(headers).get("content-length")
            if declared and status not in (204, 304) and "warc-truncated" not in header and int(declared) != len(body):
                # A response to HEAD has no body. The request shows that.
                self.mismatch = f"Content-Length {declared} of {len(body)} bytes that are not truncated"
            self.responses[entry["url"], entry["date"]] = digest
            self.payloads[entry["url"], entry["date"]] = digest
        else:
            check = lambda: self.revisit(place, header, status, body, digest)
            check() if self.is_ordered else self.unchecked.append(check)
            entry["profile"] = header.get("warc-profile", "").rsplit("/")[-1]
            entry["refers_to"] = header.get("warc-refers-to-target-uri")
            entry["refers_to_date"] = header.get("warc-refers-to-date")
        self.pending = header | {"status": status}
        print(json.dumps(entry))

    def revisit(self, place, header, status, body, digest):
        profile = header.get("warc-profile")
        original = header.get("warc-refers-to-target-uri"), header.get("warc-refers-to-date")
        if profile not in PROFILES or not all(original):
            self.fail(place, f"profile {profile!r} referring to {original}")
        if body:
            self.fail(place, "a revisit with a body")
        if profile and profile.endswith("identical-payload-digest"):
            if digest is None or self.responses.get(original) != digest:
                self.fail(place, f"no earlier response {original} with the digest {digest}")
        else:
            if status != 304:
                self.fail(place, f"not modified with status {status}")
            # The first visit is in the archive, too.
            digest = self.payloads.get(original)
            if digest is None or original[0] != header.get("warc-target-uri"):
                self.fail(place, f"no earlier capture {original} of the same URI")
        self.payloads[header.get("warc-target-uri"), header.get("warc-date")] = digest

    def request(self, place, header, block):
        response, self.pending = self.pending, None
        if not response:
            return self.fail(place, "a request without a response before it")
        if header.get("warc-concurrent-to") != response.get("warc-record-id"):
            self.fail(place, "WARC-Concurrent-To is not the response")
        for name in ("warc-date", "warc-target-uri", "warc-ip-address", "warc-protocol"):
            if header.get(name) != response.get(name):
                self.fail(place, f"{name} differs from the response's")
        line, headers, body = http_head(block, place)
        if not re.fullmatch(r"(GET|HEAD|POST) \S+ HTTP/1\.[01]", line) or body:
            self.fail(place, f"request {line!r}")
        if header.get("content-type", "").replace(" ", "") != HTTP_REQUEST:
            self.fail(place, f"Content-Type {header.get('content-type')!r}")
        if self.mismatch and not line.startswith("HEAD "):
            self.fail(place, self.mismatch)
        names = {name for name, _ in headers}
        if response["status"] == 304 and response.get("warc-type") == "response" and names & CONDITIONS:
            self.fail(place, f"the reply 304 to {names & CONDITIONS} is no revisit")
        if "host" not in names:
            self.fail(place, "no Host header")
        if names & SECRET_HEADERS:
            self.fail(place, f"secret headers: {names & SECRET_HEADERS}")


def main():
    secrets, paths, is_ordered = [], [], True
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument == "--secret":
            secrets.append(next(arguments))
        elif argument == "--any-order":
            is_ordered = False
        else:
            paths.append(argument)
    archive = Archive(secrets, is_ordered)
    for path in paths:
        archive.check(path)
    for check in archive.unchecked:
        check()
    for violation in violations:
        print(violation, file=sys.stderr)
    sys.exit(1 if violations else 0)


main()
