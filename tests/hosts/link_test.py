"""Slow links: the same bits, and buckets that are sent while the backward pass goes on."""

import json

from job import STEPS, HostsTest, Job, train


class SlowLinkTest(HostsTest):
    def test_a_delay_changes_no_bit(self):
        hosts = self.hosts("a", "b", rtt_ms=20, rate="1gbit")
        self.expect_digest("short", Job(hosts["a"], train("short", "--host", "a:2,b:2", "--launcher", "ssh")))

    def test_overlap_gains_time_and_changes_no_bit(self):
        hosts = self.hosts("a", "b", rtt_ms=20, rate="1gbit")
        seconds = {}
        for overlap in ("off", "on"):
            summary = hosts.shared / f"{overlap}.json"
            job = Job(hosts["a"], train("wide", "--host", "a:2,b:2", "--launcher", "ssh", "--overlap", overlap,
                                        "--summary", summary))
            self.expect_digest("wide", job, 90)
            samples = STEPS["wide"] * 16
            seconds[overlap] = samples / json.loads(summary.read_text())["samples_per_second"] / STEPS["wide"]
        print(f"a step over 1 Gbit/s and 20 ms: {seconds['off']:.3f} s without overlap, {seconds['on']:.3f} s with it, "
              f"{100 * (1 - seconds['on'] / seconds['off']):.0f} % less")
        self.assertLess(seconds["on"], seconds["off"])
