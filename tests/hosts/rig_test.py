"""The rig itself: hosts that are apart, links that are slow, and nothing that stays."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import rig
from job import HostsTest

ECHO_SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], 5000))
peer, _ = server.accept()
while data := peer.recv(1 << 20):
    if len(data) < 100: peer.sendall(data)
peer.close()
"""

PING = """
import json, socket, sys, time
peer = socket.create_connection((sys.argv[1], 5000))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def round_trip():
    start = time.monotonic()
    peer.sendall(b"x")
    peer.recv(1)
    return time.monotonic() - start
rtt = min(round_trip() for _ in range(20))
start = time.monotonic()
for _ in range(100): peer.sendall(bytes(1 << 20))
peer.shutdown(socket.SHUT_WR)
peer.recv(1)
print(json.dumps({"rtt_ms": rtt * 1000, "mbit": 100 * 8.388608 / (time.monotonic() - start)}))
"""

# Makes hosts, says what must be gone after it, and waits to be killed.
VICTIM = """
import sys, time
sys.path.insert(0, sys.argv[1])
import os, rig
with rig.Hosts("a", "b", rtt_ms=4) as hosts:
    hosts["b"].start(["sleep", "1000"])
    places = [*hosts, hosts.switch]
    made = [os.readlink(f"/proc/{place.pid}/ns/{kind}") for place in places for kind in ("net", "pid", "mnt")]
    print(hosts.folder, *made, flush=True)
    time.sleep(1000)
"""


def namespaces_in_use():
    found = set()
    for link in pathlib.Path("/proc").glob("[0-9]*/ns/*"):
        try:
            found.add(os.readlink(link))
        except OSError:
            pass
    return found


def state_of_machine():
    return (pathlib.Path("/proc/self/mountinfo").read_text(), sorted(os.listdir("/sys/class/net")),
            pathlib.Path("/etc/hosts").read_text())


class RigTest(HostsTest):
    def test_hosts_share_nothing_but_the_network_and_their_folder(self):
        hosts = self.hosts("a", "b")
        for path in ("/tmp/mark", "/run/mark", "/dev/shm/mark"):
            hosts["a"].call("touch", path)
            self.assertNotEqual(hosts["b"].run(["test", "-e", path]).returncode, 0, path)
        hosts["a"].call("touch", hosts.shared / "mark")
        hosts["b"].call("test", "-e", hosts.shared / "mark")
        seen = hosts["a"].run(["ssh", "-o", "BatchMode=yes", "b", "hostname; ls /sys/class/net; ps ax"]).stdout.split()
        self.assertEqual(seen[:3], ["b", "eth0", "lo"])
        self.assertNotIn("slurmctld", seen)

    def test_a_link_has_the_rate_and_delay_that_were_asked_for(self):
        hosts = self.hosts("a", "b", rtt_ms=20, rate="1gbit")
        with hosts["b"].start(["/usr/bin/python3", "-c", ECHO_SERVER, hosts["b"].address]):
            rig.wait_until(lambda: (hosts["b"].address, 5000) in hosts["b"].listeners(), 30, "a server")
            done = hosts["a"].run(["/usr/bin/python3", "-c", PING, hosts["b"].address])
        measured = json.loads(done.stdout)
        print(f"fastest round trip {measured['rtt_ms']:.1f} ms, {measured['mbit']:.0f} Mbit/s")
        self.assertGreaterEqual(measured["rtt_ms"], 20)
        self.assertLess(measured["rtt_ms"], 40)
        # Only an upper limit: the rate depends on the load of the machine. An idle machine reaches 900.
        self.assertLess(measured["mbit"], 1000)

    def test_an_unplugged_host_is_not_reached_until_it_is_plugged_in(self):
        hosts = self.hosts("a", "b")
        reach = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "b", "true"]
        hosts.unplug("b")
        self.assertEqual(hosts["a"].run(reach).returncode, 255)
        hosts.plug_in("b")
        rig.wait_until(lambda: hosts["a"].run(reach).returncode == 0, 60, "b is reached again")

    def test_nothing_stays_of_a_rig_that_is_killed(self):
        before = state_of_machine()
        with subprocess.Popen([sys.executable, "-c", VICTIM, str(pathlib.Path(rig.__file__).parent)],
                              stdout=subprocess.PIPE, text=True) as victim:
            folder, *made = victim.stdout.readline().split()
            self.addCleanup(shutil.rmtree, folder)
            made = set(made)
            self.assertEqual(len(made), 9)
            self.assertLessEqual(made, namespaces_in_use())
            victim.send_signal(signal.SIGKILL)
        rig.wait_until(lambda: not made & namespaces_in_use(), 30, "no process in any namespace of the rig")
        self.assertEqual(before, state_of_machine())
