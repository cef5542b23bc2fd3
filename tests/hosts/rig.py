"""Hosts made of namespaces on this one machine, joined by a switch.

    with Hosts("a", "b") as hosts:
        hosts["a"].run(["ssh", "b", "hostname"])

Each host has a network, file systems for temporary files and shared memory, processes and a name of its own,
and an sshd; it sees the system, the repository and `hosts.shared` as they are. The switch is a bridge in a network
namespace of its own. Nothing of the machine is touched, and nothing stays: each namespace belongs to a
process that ends when this one does, even by SIGKILL, since it waits for the end of a pipe from here.
"""

import ctypes
import ipaddress
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The environment of every process on a host.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp/home",
               "USER": "root", "LANG": "C.UTF-8", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build/release"))
NETWORK = "10.77.0"
PROGRAMS = ("unshare", "nsenter", "ip", "tc", "mount", "ssh", "ssh-keygen", "/usr/sbin/sshd")

SSH_CONFIG = """\
IdentityFile {folder}/id
UserKnownHostsFile {folder}/known_hosts
StrictHostKeyChecking yes
"""

SSHD_CONFIG = """\
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/id.pub
PidFile /run/sshd.pid
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
KbdInteractiveAuthentication no
PasswordAuthentication no
SetEnv HOME=/tmp/home OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"""


def wait_until(condition, seconds, what):
    """What `condition` returns as soon as that is true; fails after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        if result := condition():
            return result
        if time.monotonic() > end:
            raise TimeoutError(f"after {seconds} s still not: {what}")
        time.sleep(0.02)


def missing():
    """Why this machine cannot have hosts, or nothing."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    lacking = [program for program in PROGRAMS if not shutil.which(program)]
    if lacking:
        return f"not installed: {', '.join(lacking)} (packages/hosts)"
    probe = subprocess.run(["unshare", "-n", "-m", "-p", "-u", "-i", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/tmp"],
                           capture_output=True, text=True, check=False)
    return f"no namespaces here: {probe.stderr.strip()}" if probe.returncode else ""


def output_of(arguments):
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def end_with_this_process():
    """Between fork and exec: a child that is killed when its parent ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Namespaces:
    """A process that holds namespaces open, and a way to run commands in them."""

    def __init__(self, kinds, first_process):
        self._keeper = subprocess.Popen(["unshare", *kinds, "--fork", "--kill-child", "--mount-proc", *first_process],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=end_with_this_process)
        if self._keeper.stdout.readline() != "ready\n":
            self.close()
            raise RuntimeError(f"{' '.join(map(str, first_process))} did not start")
        keeper = self._keeper.pid
        self.pid = int(pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])
        self.pid_namespace = os.readlink(f"/proc/{self.pid}/ns/pid")

    def command(self, arguments):
        return ["nsenter", "-t", str(self.pid), "-n", "-m", "-u", "-i", "-p", *map(str, arguments)]

    def call(self, *arguments):
        """Runs a command of the rig itself, which must succeed."""
        return output_of(self.command(arguments))

    def net(self, *arguments):
        """The same for ip and tc: in the network alone, so that pids mean what they mean here."""
        return output_of(["nsenter", "-t", self.pid, "-n", *arguments])

    def processes(self):
        """{pid: command line} of all but the first process, with pids as this machine counts them."""
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "ns/pid") != self.pid_namespace or int(entry.name) == self.pid:
                    continue
                # A zombie has ended: only its parent has not asked.
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    continue
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                pass
        return found

    def close(self):
        self._keeper.stdin.close()
        self._keeper.wait(30)
        self._keeper.stdout.close()


class Host(Namespaces):
    """One of the hosts; `address` is that of its only interface, eth0."""

    def __init__(self, name, address, folder, keep):
        self.name, self.address, self._folder = name, address, folder
        super().__init__(["--net", "--mount", "--uts", "--ipc", "--pid"],
                         [sys.executable, pathlib.Path(__file__).with_name("host_init.py"), name, folder, *keep])

    def start(self, arguments, env=None, **options):
        """A process on this host, in the folder that all hosts share; what `Popen` takes besides."""
        return subprocess.Popen(self.command(["--wd=" + str(self._folder.parent / "shared"), *arguments]),
                                env=ENVIRONMENT | (env or {}), **options)

    def run(self, arguments, timeout=180, **options):
        """The same to its end; output is text, with errors in it."""
        with self.start(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                        text=True, **options) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired as late:
                self.kill(self.processes())
                output, _ = process.communicate()
                raise TimeoutError(f"{' '.join(map(str, arguments))} took over {timeout} s:\n{output}") from late
        return subprocess.CompletedProcess(arguments, process.returncode, output)

    def start_sshd(self):
        config = self._folder / "sshd_config"
        self.call("/usr/sbin/sshd", "-f", config, "-E", "/tmp/sshd.log")

    def stop_sshd(self):
        """Its connections end, too."""
        self.kill(pid for pid, line in self.processes().items() if line.startswith(("sshd:", "/usr/sbin/sshd")))

    def kill(self, pids, number=signal.SIGKILL):
        for pid in list(pids):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill_all(self):
        """All at once, as when the power fails: whatever one of them starts meanwhile is killed too."""
        wait_until(lambda: self.kill(self.processes()) or not self.processes(), 30, f"all of {self.name} killed")

    def find(self, *words):
        """Processes whose command lines have all these words in them."""
        return {pid: line for pid, line in self.processes().items() if all(word in line for word in words)}

    def counted_bytes(self, direction):
        """What eth0 has carried so far; direction is tx or rx."""
        return int(self.call("cat", f"/sys/class/net/eth0/statistics/{direction}_bytes"))

    def listeners(self):
        """{(address, port): pid} of every TCP socket of this host that takes connections."""
        owners = {}
        for pid in self.processes():
            try:
                for handle in os.scandir(f"/proc/{pid}/fd"):
                    owners[os.readlink(handle.path)] = pid
            except OSError:
                pass
        found = {}
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                listening = "0A"
                if fields[3] == listening:
                    digits, port = fields[1].split(":")
                    found[readable(digits), int(port, 16)] = owners.get(f"socket:[{fields[9]}]")
        return found


def readable(digits):
    """The address that /proc/net/tcp writes as words of four bytes, the last byte first."""
    words = [bytes.fromhex(digits[i:i + 8])[::-1] for i in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    return str(getattr(address, "ipv4_mapped", None) or address)


class Hosts:
    """Hosts by their names. `rtt_ms` and `rate` (as tc writes it) are those of the way between any two."""

    def __init__(self, *names, rtt_ms=0, rate=None):
        self.names, self._rtt_ms, self._rate = names, rtt_ms, rate
        self._hosts, self._lines, self.switch = {}, [], None

    def __getitem__(self, name):
        return self._hosts[name]

    def __iter__(self):
        return iter(self._hosts.values())

    def __enter__(self):
        folder = BUILD / "tests/hosts"
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hosts.", dir=folder))
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        try:
            self._write_files()
            # `cat` ends with its input, too.
            self.switch = Namespaces(["--net", "--mount", "--pid"], ["sh", "-c", "echo ready; exec cat"])
            self.switch.net("ip", "link", "add", "br0", "type", "bridge")
            self.switch.net("ip", "link", "set", "br0", "up")
            for number, name in enumerate(self.names):
                self._hosts[name] = self._add(name, f"{NETWORK}.{number + 1}")
            for host in self:
                host.start_sshd()
            for host in self:
                wait_until(lambda: (host.address, 22) in host.listeners(), 30, f"an sshd on {host.name}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for namespaces in [*self, *([self.switch] if self.switch else [])]:
            namespaces.close()
        for line in self._lines:
            line.wait(30)
        shutil.rmtree(self.folder)

    def _write_files(self):
        for key in ("id", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        public = (self.folder / "host_key.pub").read_text()
        table = {name: f"{NETWORK}.{number + 1}" for number, name in enumerate(self.names)}
        (self.folder / "known_hosts").write_text("".join(f"{n},{a} {public}" for n, a in table.items()))
        for name, address in table.items():
            folder = self.folder / name
            (folder / "etc/ssh").mkdir(parents=True)
            (folder / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in table.items()))
            (folder / "etc/ssh/ssh_config").write_text(SSH_CONFIG.format(folder=self.folder))
            (folder / "sshd_config").write_text(SSHD_CONFIG.format(folder=self.folder, address=address))

    def _add(self, name, address):
        host = Host(name, address, self.folder / name, [ROOT, BUILD, self.folder])
        self._hosts[name] = host
        port = f"to-{name}"
        if self._rtt_ms:
            self._add_delay_line(host, port)
        else:
            self.switch.net("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.pid)
        self.switch.net("ip", "link", "set", port, "master", "br0", "up")
        host.net("ip", "address", "add", f"{address}/24", "dev", "eth0")
        host.net("ip", "link", "set", "eth0", "up")
        if self._rate:
            host.net("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self._rate, "burst", "128kb",
                      "latency", "50ms")
        return host

    def _add_delay_line(self, host, port):
        """Port and eth0 are not one cable then: a program carries frames from one to the other, later.

        tc has netem for this, but not every kernel has that. A way between two hosts passes two lines, and there and
        back makes four passages.
        """
        for inner, outer, place in ((f"{port}-s", port, self.switch), (f"{port}-h", "eth0", host)):
            self.switch.net("ip", "link", "add", inner, "type", "veth", "peer", "name", outer, "netns", place.pid)
            self.switch.net("ip", "link", "set", inner, "up")
        line = subprocess.Popen(self.switch.command([BUILD / "tests/hosts/delay_line", f"{port}-s", f"{port}-h",
                                                     str(self._rtt_ms * 1000 // 4)]), stdout=subprocess.PIPE, text=True)
        self._lines.append(line)
        if line.stdout.readline() != "ready\n":
            raise RuntimeError("the delay line did not start")

    def unplug(self, name):
        self.switch.net("ip", "link", "set", f"to-{name}", "down")

    def plug_in(self, name):
        self.switch.net("ip", "link", "set", f"to-{name}", "up")
