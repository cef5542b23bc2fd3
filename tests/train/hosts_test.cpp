#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/train/recovery/kept_history.h"
#include "tests/comm/hosts_group.h"
#include "tests/train/recovered_runs.h"

namespace lockstep::testing {
namespace {

using Layout = HostsGroup::Layout;

topology::Identity identity_on(const Layout& layout, int instance, int replicas, int restarts) {
  int instances = 0;
  for (const auto& host : layout) instances += static_cast<int>(host.size());
  auto identity = identity_of(instance, instances, replicas);
  for (const auto& host : layout) {
    const auto found = std::ranges::find(host, instance);
    if (found == host.end()) continue;
    identity.local_instance = static_cast<int>(found - host.begin());
    identity.num_local_instances = static_cast<int>(host.size());
  }
  identity.job_id = "job";
  identity.restart_count = restarts;
  return identity;
}

/// A job on several hosts that a launcher restarts: what each of them keeps outlives an attempt.
class HostsJob {
 public:
  explicit HostsJob(std::size_t hosts) : kept_(hosts) {
    for (std::size_t host = 0; host < hosts; ++host) lose_host(host);
  }

  /// The host is another one from now on.
  void lose_host(std::size_t host) {
    kept_[host] = std::make_shared<comm::host::KeptMemory>(comm::host::KeptMemory::create("job"));
  }

  void attempt(const Layout& layout, int replicas, const std::function<void(Options)>& function) {
    for (const auto& memory : kept_) memory->begin_attempt();
    HostsGroup group(layout, {}, kept_);
    const int restarts = restarts_++;
    run_hosts(group, [&](comm::Communicator& communicator) {
      const auto identity = identity_on(layout, communicator.rank(), replicas, restarts);
      function(Options(World(identity, communicator)));
    });
  }

  void failed_attempt(const Layout& layout, int replicas,
                      const std::function<void(Options)>& function) {
    EXPECT_THROW(attempt(layout, replicas, function), Error);
  }

 private:
  std::vector<std::shared_ptr<comm::host::KeptMemory>> kept_;
  int restarts_ = 0;
};

Trained finish(HostsJob& job, const Layout& layout) {
  std::mutex mutex;
  std::vector<Trained> outcomes;
  job.attempt(layout, kReplicas, [&](const Options& options) {
    auto outcome = train(options, {});
    const std::lock_guard lock(mutex);
    outcomes.push_back(std::move(outcome));
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, outcomes.front());
  return outcomes.front();
}

const std::vector<Layout> kLayouts{{{0}, {1}}, {{0, 1}, {2}}, {{0}, {1}, {2}}, {{0, 2}, {1}}};

TEST(HostsTrainingTest, EndsWithTheBitsOfOneHost) {
  for (const auto& layout : kLayouts) {
    SCOPED_TRACE(to_string(layout));
    HostsJob job(layout.size());
    EXPECT_EQ(finish(job, layout), undisturbed());
  }
}

TEST(HostsTrainingTest, ACrashOnAnyHostEndsWithTheSameBits) {
  for (const auto& layout : kLayouts) {
    for (int instance = 0; instance < 2; ++instance) {
      SCOPED_TRACE(to_string(layout));
      HostsJob job(layout.size());
      job.failed_attempt(layout, kReplicas, [&](const Options& options) {
        train(options, crash_after(4 + instance, instance));
      });
      EXPECT_EQ(finish(job, layout), undisturbed());
    }
  }
}

TEST(HostsTrainingTest, AHostThatIsLostGetsTheStateFromOneThatHasIt) {
  for (const std::size_t lost : {0U, 1U}) {
    HostsJob job(2);
    job.failed_attempt(kLayouts[1], kReplicas,
                       [](const Options& options) { train(options, crash_after(7, 1)); });
    job.lose_host(lost);
    std::atomic<std::int64_t> first_step = 0;
    const Hooks hooks{.on_step = [&](const Options&, std::int64_t done) {
      std::int64_t none = 0;
      first_step.compare_exchange_strong(none, done);
    }};
    job.failed_attempt(kLayouts[1], kReplicas, [&](const Options& options) {
      train(options, {.on_step = [&](const Options& of, std::int64_t step) {
              hooks.on_step(of, step);
              if (step == 9) throw crash();
            }});
    });
    EXPECT_EQ(first_step, 8);
    EXPECT_EQ(finish(job, kLayouts[1]), undisturbed());
  }
}

/// The first host is a new one, and has been given the state when the job crashes again, before
/// anything is done with it.
TEST(HostsTrainingTest, TwoCrashesInARowLoseNothingThatAHostStillHas) {
  const auto& layout = kLayouts[1];
  HostsJob job(2);
  job.failed_attempt(layout, kReplicas,
                     [](const Options& options) { train(options, crash_after(7, 1)); });
  job.lose_host(0);
  job.failed_attempt(layout, kReplicas, [](const Options& options) {
    train(options, {.net = [](const Options& of, BusyNetImpl& net) {
            net.cannot_be_cloned = of.world().instance() == 0;
          }});
  });
  std::atomic<std::int64_t> first_step = 0;
  job.failed_attempt(layout, kReplicas, [&](const Options& options) {
    train(options, {.on_step = [&](const Options&, std::int64_t step) {
            std::int64_t none = 0;
            first_step.compare_exchange_strong(none, step);
            if (step == 9) throw crash();
          }});
  });
  EXPECT_EQ(first_step, 8);
  EXPECT_EQ(finish(job, layout), undisturbed());
}

/// Enough weights for several buckets.
std::string train_wide(Options options, Overlap overlap) {
  options.seed(3).gradient_accumulation(2).overlap(overlap);
  DataLoader loader(options, regression(64, 100, 50).set(), {.batch_size = 2, .shuffle = true});
  TrainingModel model(small_net(100, 2000, 50), options, AdamW({.lr = 1e-3}), regression_task());
  for (auto& iteration : loader) model.step(iteration);
  return model.digest();
}

TEST(HostsTrainingTest, OverlappingTheBackwardPassChangesNoBit) {
  std::string expected;
  run_job(1, 4, [&](const Options& options) { expected = train_wide(options, Overlap::On); });
  for (const auto overlap : {Overlap::On, Overlap::Off}) {
    for (const Layout& layout : {Layout{{0}, {1}}, Layout{{0, 1}, {2}}, Layout{{0, 1}, {2, 3}}}) {
      HostsJob(layout.size()).attempt(layout, 4, [&](const Options& options) {
        EXPECT_EQ(train_wide(options, overlap), expected) << to_string(layout);
      });
    }
  }
}

TEST(HostsTrainingTest, AHistoryOutlivesHostsThatAreLostOneAfterTheOther) {
  const auto with_history = [](HostsJob& job, const std::function<void(train::KeptHistory&)>& use) {
    job.attempt(kLayouts[1], kReplicas, [&](const Options& options) {
      train::KeptHistory history(options.world().communicator(), 3, {});
      use(history);
    });
  };
  HostsJob job(2);
  with_history(job, [](train::KeptHistory& history) {
    StepResult training;
    training.loss = 0.5;
    StepResult validation;
    validation.loss = 0.25;
    history.put({.epoch = 2, .training = training, .validation = validation});
  });
  for (const std::size_t lost : {0U, 1U, 0U}) {
    job.lose_host(lost);
    with_history(job, [](train::KeptHistory& history) {
      EXPECT_FALSE(history.find(1));
      ASSERT_TRUE(history.find(2));
      EXPECT_EQ(history.find(2)->training.loss, 0.5);
      EXPECT_EQ(history.find(2)->validation.value().loss, 0.25);
    });
  }
}

}  // namespace
}  // namespace lockstep::testing
