"""stranger.py ADDRESS:PORT...: does to each address:port what a port scan and a curious neighbour do, for some seconds.

Prints the bytes that each port has ever said to it, as JSON.
"""

import json
import os
import random
import resource
import select
import socket
import sys
import time

SECONDS = 6
HELD = 150


class Stranger:
    def __init__(self, address, port):
        self.place, self.heard, self.connections = (address, port), {}, 0
        self.held = []

    def connect(self):
        connection = socket.socket()
        connection.settimeout(1)
        try:
            connection.connect(self.place)
        except OSError:
            connection.close()
            return None
        self.connections += 1
        connection.setblocking(False)
        return connection

    def listen(self, connection):
        """Keeps what one connection says."""
        try:
            if data := connection.recv(1 << 16):
                self.heard[id(connection)] = self.heard.get(id(connection), b"") + data
        except OSError:
            pass

    def send(self, connection, data):
        try:
            connection.send(data)
        except OSError:
            pass

    def hold(self):
        """Connections that stay, silent or with a byte now and then."""
        if len(self.held) < HELD and (connection := self.connect()):
            self.held.append(connection)
        for connection in random.sample(self.held, min(5, len(self.held))):
            self.send(connection, os.urandom(1))

    def bother(self):
        """Connections that come, say something and go, some of them by a reset."""
        if connection := self.connect():
            self.send(connection, random.choice((b"", b"\0" * 64, b"GET / HTTP/1.0\r\n\r\n",
                                                 os.urandom(random.randrange(1, 5000)))))
            waiter = select.poll()
            waiter.register(connection, select.POLLIN)
            waiter.poll(2)
            self.listen(connection)
            if random.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.heard[len(self.heard), "gone"] = self.heard.pop(id(connection), b"")
            connection.close()


def main():
    random.seed(1)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    strangers = [Stranger(address, int(port)) for address, port in (word.rsplit(":", 1) for word in sys.argv[1:])]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for stranger in strangers:
            stranger.hold()
            for _ in range(10):
                stranger.bother()
        # A job needs the cores, too.
        time.sleep(0.005)
    for stranger in strangers:
        for connection in stranger.held:
            stranger.listen(connection)
    print(json.dumps([{"port": f"{s.place[0]}:{s.place[1]}", "connections": s.connections,
                       "heard": sorted({data.hex() for data in s.heard.values() if data}, key=len)[-3:]}
                      for s in strangers]))


if __name__ == "__main__":
    main()
