"""Jobs under a Slurm of two nodes."""

import shlex

from job import EXAMPLE_DATA, LOCKSTEP, HostsTest, digest_of, local_digest, rig, train, train_under
from slurm import Slurm

TWO_NODES = ("--nodes=2", "--ntasks-per-node=2")


class SlurmTest(HostsTest):
    needs = ("slurm",)

    def slurm(self):
        hosts = self.hosts("a", "b")
        return hosts, self.enterContext(Slurm(hosts))

    def script(self, hosts, name, *lines):
        (hosts.shared / name).write_text("\n".join(["#!/bin/sh", *lines, ""]))
        return name

    def test_the_rig_runs_steps_tells_exit_codes_and_requeues(self):
        hosts, slurm = self.slurm()
        done = slurm.run(["srun", "-N", "2", "-n", "4", "sh", "-c", "echo $SLURM_PROCID on $(hostname)"])
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 on a", "1 on a", "2 on b", "3 on b"])
        failing = slurm.submit(self.script(hosts, "fail.sh", "exit 9"))
        self.assertEqual(slurm.wait(failing, 60)["ExitCode"], "9:0")
        requeued = slurm.submit(self.script(
            hosts, "again.sh", "[ $SLURM_RESTART_COUNT ] && exit 0", "trap 'touch stopped; exit 75' TERM",
            "touch started", "sleep 100 & wait"))
        rig.wait_until((hosts.shared / "started").exists, 60, "the job has started")
        slurm.run(["scontrol", "requeue", str(requeued)])
        job = slurm.wait(requeued, 120)
        self.assertEqual((job["JobState"], job["Restarts"]), ("COMPLETED", "1"))
        self.assertTrue((hosts.shared / "stopped").exists())

    def wait_for_training(self, hosts, before):
        output = hosts.shared / "job.out"
        try:
            rig.wait_until(lambda: hosts["b"].counted_bytes("tx") - before > 10_000_000, 120, "in mid-training")
        except TimeoutError:
            self.fail(output.read_text() if output.exists() else "the job has not started")

    def expect_digest_of(self, hosts, training):
        output = (hosts.shared / "job.out").read_text()
        self.assertEqual(digest_of(output), local_digest(training), output)
        return output

    def test_a_batch_job_trains_over_its_allocation(self):
        hosts, slurm = self.slurm()
        before = hosts["b"].counted_bytes("tx")
        number = slurm.submit(self.script(hosts, "train.sh", "exec " + shlex.join(map(str, train("short")))),
                              TWO_NODES)
        job = slurm.wait(number, 180)
        self.expect_digest_of(hosts, "short")
        self.assertEqual((job["JobState"], job["ExitCode"]), ("COMPLETED", "0:0"))
        self.assertGreater(hosts["b"].counted_bytes("tx") - before, 8_000_000)

    def test_srun_alone_trains(self):
        hosts, slurm = self.slurm()
        done = slurm.run(train_under("srun", "short", "-N", "2"))
        self.assertEqual((done.returncode, digest_of(done.stdout)), (0, local_digest("short")), done.stdout)
        self.assertEqual(done.stdout.count("weights: "), 1, done.stdout)

    def test_a_failing_job_shows_its_exit_code(self):
        hosts, slurm = self.slurm()
        command = [LOCKSTEP, "run", "--num-instances", "4", "sh", "-c",
                   "[ $LOCKSTEP_INSTANCE_INDEX = 3 ] && exit 9; sleep 60"]
        number = slurm.submit(self.script(hosts, "fail.sh", "exec " + shlex.join(map(str, command))),
                              TWO_NODES)
        job = slurm.wait(number, 180)
        self.assertEqual((job["JobState"], job["ExitCode"]), ("FAILED", "9:0"), (hosts.shared / "job.out").read_text())

    def test_a_requeued_job_resumes(self):
        hosts, slurm = self.slurm()
        command = train("long", "--checkpoint-dir", hosts.shared / "checkpoints", "--resume=auto")
        before = hosts["b"].counted_bytes("tx")
        number = slurm.submit(self.script(hosts, "train.sh", "exec " + shlex.join(map(str, command))),
                              TWO_NODES)
        self.wait_for_training(hosts, before)
        slurm.run(["scontrol", "requeue", str(number)])
        job = slurm.wait(number, 180)
        output = self.expect_digest_of(hosts, "long")
        self.assertEqual((job["JobState"], job["ExitCode"], job["Restarts"]), ("COMPLETED", "0:0", "1"))
        self.assertIn("continues after step", output)

    def test_the_example_is_told_to_stop_and_goes_on(self):
        hosts, slurm = self.slurm()
        before = hosts["b"].counted_bytes("tx")
        number = slurm.submit(rig.ROOT / "examples/slurm/train.sbatch", arguments=EXAMPLE_DATA,
                              env={"PATH": f"{LOCKSTEP.parent}:{rig.ENVIRONMENT['PATH']}"})
        self.wait_for_training(hosts, before)
        # As Slurm does when its time is nearly over.
        slurm.run(["scancel", "--signal=TERM", str(number)])
        job = slurm.wait(number, 180)
        output = self.expect_digest_of(hosts, "example")
        self.assertEqual((job["JobState"], job["ExitCode"], job["Restarts"]), ("COMPLETED", "0:0", "1"))
        self.assertIn("continues after step", output)
