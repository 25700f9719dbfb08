"""Just enough HTTP/1.1 for a proxy: heads, bodies and chunked streams over asyncio."""
import asyncio
import dataclasses

MAX_HEAD = 64 << 10
MAX_BODY = 64 << 20


class Broken(Exception):
    """The other side went away, or sent what is no HTTP."""


@dataclasses.dataclass
class Message:
    """A request (start = method, target, version) or a response (version, status, words)."""
    start: list
    headers: list  # of (name, value) as they came
    body: bytes = b""

    def header(self, name):
        name = name.lower()
        return next((value for key, value in self.headers if key.lower() == name), None)

    def without(self, *names):
        return [(key, value) for key, value in self.headers if key.lower() not in names]

    def chunked(self):
        return "chunked" in (self.header("transfer-encoding") or "").lower()


def encode_head(start, headers):
    lines = [" ".join(start), *(f"{key}: {value}" for key, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def encode(start, headers, body):
    return encode_head(start, [*headers, ("Content-Length", len(body))]) + body


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


async def read_head(reader):
    """None at a clean end of the connection."""
    try:
        text = await reader.readuntil(b"\r\n\r\n")
    except EOFError as end:  # asyncio.IncompleteReadError
        if not end.partial:
            return None
        raise Broken("half a head") from end
    except (OSError, asyncio.LimitOverrunError) as error:
        raise Broken(str(error)) from error
    first, *rest = text[:-4].decode("latin-1").split("\r\n")
    headers = [tuple(part.strip() for part in line.split(":", 1)) for line in rest if ":" in line]
    return Message(first.split(" ", 2), headers)


async def chunks(reader):
    """The pieces of a chunked body."""
    try:
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            data = await reader.readexactly(size + 2)
            if size == 0:
                return
            yield data[:-2]
    except (EOFError, OSError, ValueError, asyncio.LimitOverrunError) as error:
        raise Broken(f"a chunked body broke off: {error}") from error


async def read_body(reader, message):
    if message.chunked():
        message.body = b"".join([piece async for piece in chunks(reader)])
        return
    length = int(message.header("content-length") or 0)
    if length > MAX_BODY:
        raise Broken("a body too long")
    try:
        message.body = await reader.readexactly(length) if length else b""
    except (EOFError, OSError) as error:
        raise Broken("half a body") from error
