"""A Slurm of the rig's own: munge on every host, slurmctld on the first, slurmd on all.

    with Hosts("a", "b") as hosts, Slurm(hosts) as slurm:
        slurm.run(["srun", "-N", "2", "hostname"])
"""

import os
import re
import shutil
import subprocess
import time

from rig import wait_until

PROGRAMS = ("/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "sbatch", "srun", "scontrol")

# No cgroups, no accounting, no e-mail: what a test on one machine can have. A requeued job may start
# again as soon as its credentials are void, and nodes that were lost come back by themselves.
CONFIG = """\
ClusterName=rig
SlurmctldHost={first}({address})
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir=/tmp/slurmd-%n
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SchedulerTimeSlice=5
KillWait=20
InactiveLimit=0
SlurmctldTimeout=10
SlurmdTimeout=30
SlurmctldParameters=node_reg_mem_percent=1
MpiDefault=none
{nodes}
PartitionName=all Nodes={names} Default=YES OverSubscribe=FORCE:4 MaxTime=INFINITE State=UP
"""


def missing():
    lacking = [program for program in PROGRAMS if not shutil.which(program)]
    return f"not installed: {', '.join(lacking)} (packages/hosts)" if lacking else ""


class Slurm:
    def __init__(self, hosts):
        self._hosts = hosts
        self._first = next(iter(hosts))
        self._folder = hosts.folder / "slurm"
        self._environment = {"SLURM_CONF": str(self._folder / "slurm.conf")}
        self._daemons = []

    def __enter__(self):
        folder = self._folder
        (folder / "state").mkdir(parents=True)
        # munged wants its files where only root can write, so they are in each host's /run; its socket is where all
        # look for it.
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        names = ",".join(host.name for host in self._hosts)
        nodes = "\n".join(f"NodeName={host.name} NodeAddr={host.address} CPUs={os.cpu_count()} RealMemory=1024"
                          for host in self._hosts)
        (folder / "slurm.conf").write_text(CONFIG.format(
            first=self._first.name, address=self._first.address, folder=folder, nodes=nodes, names=names))
        # Else slurmd looks for cgroups to find out which kind they are, though it uses none.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        for host in self._hosts:
            host.call("mkdir", "/run/munge")
            host.call("cp", "-p", folder / "munge.key", "/run/munge/key")
            host.call("/usr/sbin/munged", "--force", "--key-file=/run/munge/key", "--pid-file=/run/munge/pid",
                      "--log-file=/run/munge/log", "--seed-file=/run/munge/seed")
        self._start(self._first, ["slurmctld", "-D"])
        for host in self._hosts:
            self._start(host, ["slurmd", "-D", "-N", host.name])
        wait_until(lambda: self.idle_nodes() == names, 90, "idle nodes")
        return self

    def _start(self, host, daemon):
        # They also write what they say to files, and want the folder first.
        host.call("mkdir", "-p", f"/tmp/slurmd-{host.name}")
        self._daemons.append(host.start([*daemon, "-f", self._folder / "slurm.conf"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def __exit__(self, *_):
        for host in self._hosts:
            host.kill(pid for word in ("slurm", "munged") for pid in host.find(word))
        for daemon in self._daemons:
            daemon.wait(30)

    def run(self, arguments, env=None, **options):
        """A command on the first host, which knows this Slurm."""
        return self._first.run(arguments, env=self._environment | (env or {}), **options)

    def idle_nodes(self):
        done = self.run(["sinfo", "-h", "-t", "idle", "-o", "%N"])
        nodes = self.run(["scontrol", "show", "hostnames", done.stdout.strip()]) if done.stdout.strip() else done
        return ",".join(nodes.stdout.split())

    def submit(self, script, options=(), arguments=(), env=None):
        """The number of a batch job, whose output is in job.out of the shared folder."""
        done = self.run(["sbatch", "--parsable", "--output=job.out", "--open-mode=append", *options,
                         script, *arguments], env=env)
        if done.returncode:
            raise RuntimeError(done.stdout)
        return int(done.stdout)

    def job(self, number):
        """What scontrol says of a job: {"JobState": "RUNNING", …}."""
        done = self.run(["scontrol", "show", "job", str(number)])
        return dict(re.findall(r"(\S+?)=(\S*)", done.stdout))

    def wait(self, number, seconds):
        """The same when it has ended."""
        end = time.monotonic() + seconds
        while True:
            job = self.job(number)
            if job["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "CONFIGURING"):
                return job
            if time.monotonic() > end:
                raise TimeoutError(f"job {number} after {seconds} s: {job}")
            time.sleep(0.1)
