"""Training over hosts gives the bits of one host, and sends each gradient once per host."""

from job import SHORT_STEPS, HostsTest, Job, gradient_bytes, train, train_under

# What is sent besides gradients: starting the job, its output, counts and losses.
STARTING_BYTES = 3_000_000


class TrainingTest(HostsTest):
    needs = ("mpirun",)

    def expect_training_over(self, names, *options):
        """All hosts have the same number of instances. Each must send its part of each sum to the others and what it
        has summed up to the others: 2 (H-1)/H gradients a step."""
        hosts = self.hosts(*names)
        slots = ",".join(f"{name}:{4 // len(names)}" for name in names)
        before = {host.name: host.counted_bytes("tx") for host in hosts}
        self.expect_digest("short", Job(hosts["a"], train("short", "--host", slots, *options)))
        least = SHORT_STEPS * gradient_bytes("short") * 2 * (len(names) - 1) / len(names)
        for host in hosts:
            sent = host.counted_bytes("tx") - before[host.name]
            self.assertGreater(sent, least, host.name)
            self.assertLess(sent, 1.15 * least + STARTING_BYTES, host.name)
        self.expect_nothing_left(hosts)

    def test_two_hosts_by_ssh(self):
        self.expect_training_over("ab", "--launcher", "ssh")

    def test_four_hosts_by_ssh(self):
        self.expect_training_over("abcd", "--launcher", "ssh")

    def test_two_hosts_by_mpirun(self):
        self.expect_training_over("ab", "--launcher", "mpirun")

    def test_four_hosts_by_mpirun(self):
        self.expect_training_over("abcd", "--launcher", "mpirun")

    def test_tcp_where_mpirun_started_it(self):
        self.expect_training_over("ab", "--launcher", "mpirun", "--transport", "tcp")

    def test_hosts_with_unequal_numbers_of_instances(self):
        hosts = self.hosts("a", "b")
        self.expect_digest("short", Job(hosts["a"], train("short", "--host", "a:1,b:3", "--launcher", "ssh")))
        self.expect_nothing_left(hosts)

    def test_a_job_without_this_host(self):
        hosts = self.hosts("a", "b", "c")
        self.expect_digest("short", Job(hosts["c"], train("short", "--host", "a:2,b:2", "--launcher", "ssh")))
        self.expect_nothing_left(hosts)


class PlainMpirunTest(HostsTest):
    """mpirun alone, without our launcher."""

    needs = ("mpirun",)

    def expect_training_by(self, *mpi_options):
        hosts = self.hosts("a", "b")
        job = Job(hosts["a"], train_under("mpirun", "short", *mpi_options))
        self.expect_digest("short", job)
        self.assertEqual(job.output.count("weights: "), 1, job.output)
        self.expect_nothing_left(hosts)

    def test_by_slot(self):
        self.expect_training_by("--map-by", "slot")

    def test_by_node(self):
        self.expect_training_by("--map-by", "node")
