"""A venue by another hand: LIBRARY FOLDER. Prints its port.

FOLDER has certificate.pem and key.pem, what the two routes send (public, market: a message a line)
and the answer to a request for the book (snapshot).
"""

import asyncio
import http
import pathlib
import ssl
import sys

library, folder = sys.argv[1], pathlib.Path(sys.argv[2])
lines = {route: (folder / route).read_text().splitlines() for route in ("public", "market")}
snapshot = (folder / "snapshot").read_text()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")


def route_of(path):
    return path.split("/")[1]


async def by_websockets():
    import websockets

    # Its first interface (Debian 12 has 10.4) hands over other things than the later one.
    def answer(first, second):
        old = isinstance(first, str)
        path = first if old else second.path
        if not path.startswith("/fapi/v1/depth"):
            return None
        ok = http.HTTPStatus.OK
        return (ok, [], snapshot.encode()) if old else first.respond(ok, snapshot)

    async def answer_later(first, second):
        return answer(first, second)

    async def feed(socket):
        path = socket.path if hasattr(socket, "path") else socket.request.path
        for number, line in enumerate(lines[route_of(path)]):
            # Fragments, with pings in between.
            middle = len(line) // 2
            await socket.send([line[:middle], line[middle:]] if number % 5 == 4 else line)
            if number % 50 == 0:
                await socket.ping()
        await socket.wait_closed()

    async with websockets.serve(
        feed, "127.0.0.1", 0, ssl=context, process_request=answer_later
    ) as server:
        print(list(server.sockets)[0].getsockname()[1], flush=True)
        await asyncio.Future()


async def by_aiohttp():
    from aiohttp import web

    async def depth(_):
        return web.Response(text=snapshot, content_type="application/json")

    async def feed(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        for number, line in enumerate(lines[route_of(request.path)]):
            await socket.send_str(line)
            if number % 50 == 0:
                await socket.ping()
        async for _ in socket:
            pass
        return socket

    app = web.Application()
    app.router.add_get("/fapi/v1/depth", depth)
    app.router.add_get("/{route}/stream", feed)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.SockSite(runner, listening(), ssl_context=context)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Future()


def listening():
    import socket

    made = socket.create_server(("127.0.0.1", 0))
    made.setblocking(False)
    return made


asyncio.run({"websockets": by_websockets, "aiohttp": by_aiohttp}[library]())
