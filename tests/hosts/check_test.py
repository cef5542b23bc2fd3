"""What is wrong with hosts is said before a job starts, in one table."""

from job import LOCKSTEP, HostsTest


class HostCheckTest(HostsTest):
    def check(self, hosts, listed, *program):
        """Exit code, and what is said of each host: its row of the table, and lines below that say what is wrong."""
        done = hosts["a"].run([LOCKSTEP, "run", "--launcher", "ssh", "--host", listed, "--host-check-only", *program])
        rows = {}
        for line in done.stdout.splitlines():
            if (name := line.split(" ")[0].rstrip(":")) in listed.split(","):
                rows[name] = rows.get(name, "") + line + "\n"
        self.output = done.stdout
        return done.returncode, rows

    def test_hosts_that_are_well(self):
        hosts = self.hosts("a", "b")
        code, rows = self.check(hosts, "a,b", "true")
        self.assertEqual(code, 0, self.output)
        self.assertEqual(sorted(rows), ["a", "b"], self.output)

    def test_hosts_that_are_unknown_or_silent_or_without_sshd(self):
        hosts = self.hosts("a", "b", "c", "d")
        hosts["b"].stop_sshd()
        hosts.unplug("c")
        code, rows = self.check(hosts, "a,b,c,d,nowhere", "true")
        self.assertEqual(code, 4, self.output)
        self.assertIn("refused", rows["b"])
        self.assertRegex(rows["c"], "No route to host|timed out|unreachable")
        self.assertIn("resolve", rows["nowhere"])
        # One bad host hides nothing of the others.
        for well in ("a", "d"):
            self.assertNotRegex(rows[well], r"\bno\b", self.output)

    def test_a_program_that_one_host_does_not_have(self):
        hosts = self.hosts("a", "b")
        folder = hosts.shared / "programs"
        folder.mkdir()
        (folder / "own").write_text("#!/bin/sh\n")
        (folder / "own").chmod(0o755)
        hosts["b"].call("mount", "-t", "tmpfs", "tmpfs", folder)
        code, rows = self.check(hosts, "a,b", folder / "own")
        self.assertEqual(code, 4, self.output)
        self.assertIn("not found", rows["b"])
        self.assertNotIn("not found", rows["a"])

    def test_a_host_without_lockstep(self):
        hosts = self.hosts("a", "b")
        hosts["b"].call("mount", "-t", "tmpfs", "tmpfs", LOCKSTEP.parent)
        code, rows = self.check(hosts, "a,b", "true")
        self.assertEqual(code, 4, self.output)
        self.assertRegex(rows["b"], "lockstep: (No such file|not found)")

    def test_two_hosts_without_a_route_between_them(self):
        hosts = self.hosts("a", "b", "c")
        hosts["b"].net("ip", "route", "add", "blackhole", f"{hosts['c'].address}/32")
        code, rows = self.check(hosts, "a,b,c", "true")
        self.assertEqual(code, 4, self.output)
        self.assertIn("no way to c", rows["b"])
        self.assertNotIn("no way", rows["a"])

    def test_a_host_that_asks_for_a_password_is_refused_at_once(self):
        hosts = self.hosts("a", "b")
        hosts["b"].call("mount", "--bind", "/dev/null", hosts.folder / "id.pub")
        code, rows = self.check(hosts, "a,b", "true")
        self.assertEqual(code, 4, self.output)
        self.assertIn("denied", rows["b"])
