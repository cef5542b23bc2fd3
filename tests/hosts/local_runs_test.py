"""The digests that all others expect."""

import json

import job


class LocalRunsTest(job.HostsTest):
    def test_train_on_this_host(self):
        job.LOCAL_RUNS.unlink(missing_ok=True)
        kept = {training: job.train_here(training) for training in job.TRAININGS}
        self.assertNotIn(None, kept.values())
        job.LOCAL_RUNS.parent.mkdir(parents=True, exist_ok=True)
        job.LOCAL_RUNS.write_text(json.dumps({"version": job.version(), **kept}))
