"""What a job listens on, who may talk to it, and where its secret is not."""

import ipaddress
import json
import pathlib
import re

from job import HostsTest, Job, train

# A connection may get the first bytes of a handshake; nothing that depends on the job.
HANDSHAKE_BYTES = 64


class TrustTest(HostsTest):
    needs = ("mpirun",)

    def start(self, hosts, *launcher):
        """A job in mid-training."""
        job = Job(hosts["a"], train("long", "--host", "a:2,b:2", "--launcher", *launcher))
        self.wait_for_steps(job, hosts["b"], 3)
        return job

    def start_meeting(self, hosts, *launcher):
        """A job whose hosts listen, and have not met yet."""
        job = Job(hosts["a"], train("long", "--host", "a:2,b:2", "--launcher", *launcher))
        job.wait_until(lambda: all(self.listeners_of_jobs(hosts[name]) for name in "ab"), 30, "hosts listen")
        return job

    def listeners_of_jobs(self, host):
        """Those of lockstep: mpirun and sshd have their own."""
        processes = host.processes()
        return [place for place, pid in host.listeners().items()
                if pathlib.PurePath(processes.get(pid, "").split(" ")[0]).name.startswith("lockstep")]

    def expect_strangers_change_nothing(self, start, *launcher):
        hosts = self.hosts("a", "b", "c")
        job = start(hosts, *launcher)
        outside, inside = [], {"a": [], "b": []}
        for name in "ab":
            for address, port in self.listeners_of_jobs(hosts[name]):
                loopback = ipaddress.ip_address(address).is_loopback
                self.assertTrue(loopback or address == hosts[name].address, f"{name} listens on {address}:{port}")
                (inside[name] if loopback else outside).append(f"{address}:{port}")
        print(f"listening: {outside} {inside}")
        script = pathlib.Path(__file__).with_name("stranger.py")
        strangers = [Job(hosts[name], ["/usr/bin/python3", script, *ports])
                     for name, ports in (("c", outside), *inside.items()) if ports]
        self.expect_digest("long", job)
        connections = 0
        for stranger in strangers:
            self.assertEqual(stranger.end(60), 0, stranger.output)
            for port in json.loads(stranger.output):
                connections += port["connections"]
                for said in port["heard"]:
                    self.assertLessEqual(len(said) // 2, HANDSHAKE_BYTES, f"{port['port']} said {said}")
        print(f"{connections} connections")
        self.assertGreater(connections, 200)
        self.expect_nothing_left(hosts)

    def test_strangers_change_nothing_during_training(self):
        self.expect_strangers_change_nothing(self.start, "ssh")

    def test_strangers_change_nothing_while_hosts_meet(self):
        self.expect_strangers_change_nothing(self.start_meeting, "ssh")

    def test_strangers_change_nothing_where_mpirun_starts_the_job(self):
        # The transport mpi listens as Open MPI does, on every interface.
        self.expect_strangers_change_nothing(self.start, "mpirun", "--transport", "tcp")

    def expect_no_secret_on_command_lines(self, launcher):
        hosts = self.hosts("a", "b")
        job = self.start(hosts, launcher)
        secrets, lines = set(), []
        for host in hosts:
            for pid, line in host.processes().items():
                lines.append(line)
                try:
                    variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                secrets |= {value.decode() for name, _, value in (v.partition(b"=") for v in variables)
                            if b"SECRET" in name and value}
        for line in lines:
            for secret in secrets:
                self.assertNotIn(secret, line)
            # Nor anything else that is long and random.
            self.assertIsNone(re.search(r"(?<![\w/])[0-9a-fA-F]{32,}(?!\w)", line), line)
        self.expect_digest("long", job)

    def test_the_secret_is_on_no_command_line_of_ssh(self):
        self.expect_no_secret_on_command_lines("ssh")

    def test_the_secret_is_on_no_command_line_of_mpirun(self):
        self.expect_no_secret_on_command_lines("mpirun")
