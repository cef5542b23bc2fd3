"""Jobs under a Slurm of two nodes."""

from job import HostsTest, rig
from slurm import Slurm


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
        self.assertEqual(slurm.wait(failing, 20)["ExitCode"], "9:0")
        requeued = slurm.submit(self.script(
            hosts, "again.sh", "[ $SLURM_RESTART_COUNT ] && exit 0", "trap 'touch stopped; exit 75' TERM",
            "touch started", "sleep 100 & wait"))
        rig.wait_until((hosts.shared / "started").exists, 20, "the job has started")
        slurm.run(["scontrol", "requeue", str(requeued)])
        job = slurm.wait(requeued, 40)
        self.assertEqual((job["JobState"], job["Restarts"]), ("COMPLETED", "1"))
        self.assertTrue((hosts.shared / "stopped").exists())
