#include <sched.h>

#include <array>
#include <ostream>
#include <set>
#include <span>

#include "tests/cli/train_runs.h"

namespace lockstep::testing {
namespace {

enum class Bind { Free, Bound };
enum class Loader { Sync, Async };
enum class Transport { Local, Shm };

/// One way to carry the same 8 replicas.
struct Layout {
  int instances;
  Bind bind;
  Loader loader;
  int workers;
  Transport transport;
};

std::string name_of(const Layout& layout) {
  return std::to_string(layout.instances) + "-instances-" +
         (layout.bind == Bind::Bound ? "bound-" : "free-") +
         (layout.loader == Loader::Sync ? "sync-" : "async-") + std::to_string(layout.workers) +
         "-workers-" + (layout.transport == Transport::Local ? "local" : "shm");
}

/// A model, what it is trained with, and layouts of which each must give the same bits.
struct Contract {
  const char* model;
  const char* options;
  std::span<const Layout> layouts;
};

std::ostream& operator<<(std::ostream& out, const Contract& contract) {
  return out << contract.model;
}

// The layouts of the three models together hold every pair of values that may stand together, of
// the six: model, instances, binding, loader, workers, transport. Each number of instances comes
// with each number of workers, which is 30 rows; a synchronous loader has no workers, so all rows
// with 0 are synchronous, and there is one more. Local is for one instance. Models and binding were
// drawn until no pair was missing, with as many processes for each model as for the others, and as
// few as possible on a shared core. `make contract` runs all combinations.
constexpr std::array kResnetLayouts{
    Layout{1, Bind::Bound, Loader::Sync, 0, Transport::Local},
    Layout{2, Bind::Bound, Loader::Async, 3, Transport::Shm},
    Layout{3, Bind::Free, Loader::Async, 1, Transport::Shm},
    Layout{4, Bind::Free, Loader::Async, 1, Transport::Shm},
    Layout{4, Bind::Bound, Loader::Async, 2, Transport::Shm},
    Layout{4, Bind::Free, Loader::Async, 3, Transport::Shm},
    Layout{5, Bind::Free, Loader::Async, 4, Transport::Shm},
    Layout{8, Bind::Free, Loader::Async, 1, Transport::Shm},
    Layout{8, Bind::Free, Loader::Async, 4, Transport::Shm},
};
constexpr std::array kConvnetLayouts{
    Layout{1, Bind::Free, Loader::Async, 0, Transport::Shm},
    Layout{1, Bind::Bound, Loader::Async, 1, Transport::Local},
    Layout{1, Bind::Bound, Loader::Async, 2, Transport::Local},
    Layout{2, Bind::Free, Loader::Sync, 0, Transport::Shm},
    Layout{2, Bind::Bound, Loader::Async, 4, Transport::Shm},
    Layout{3, Bind::Free, Loader::Sync, 0, Transport::Shm},
    Layout{3, Bind::Free, Loader::Async, 2, Transport::Shm},
    Layout{4, Bind::Free, Loader::Async, 4, Transport::Shm},
    Layout{5, Bind::Bound, Loader::Async, 2, Transport::Shm},
    Layout{8, Bind::Free, Loader::Async, 2, Transport::Shm},
    Layout{8, Bind::Bound, Loader::Async, 3, Transport::Shm},
};
constexpr std::array kMlpLayouts{
    Layout{1, Bind::Free, Loader::Async, 3, Transport::Local},
    Layout{1, Bind::Bound, Loader::Async, 4, Transport::Local},
    Layout{2, Bind::Bound, Loader::Async, 1, Transport::Shm},
    Layout{2, Bind::Bound, Loader::Async, 2, Transport::Shm},
    Layout{3, Bind::Bound, Loader::Async, 3, Transport::Shm},
    Layout{3, Bind::Free, Loader::Async, 4, Transport::Shm},
    Layout{4, Bind::Free, Loader::Sync, 0, Transport::Shm},
    Layout{5, Bind::Free, Loader::Sync, 0, Transport::Shm},
    Layout{5, Bind::Free, Loader::Async, 1, Transport::Shm},
    Layout{5, Bind::Free, Loader::Async, 3, Transport::Shm},
    Layout{8, Bind::Free, Loader::Sync, 0, Transport::Shm},
};

/// Two epochs of 4 steps in 2 iterations, whose ends are dropped, and a test set that does not
/// divide. Threads are fixed, since a job on fewer cores would choose fewer of them.
constexpr const char* kSynthetic =
    "--dataset synthetic --size 300 --image-size 16x16x3 --batch-size 4 --threads-per-device 1";
/// The BLAS takes its own number of threads from the cores that it may run on, and gives other bits
/// with another number, where a batch is large enough.
constexpr const char* kWide =
    "--dataset fashion-mnist --limit-train 1100 --batch-size 16 --threads-per-device 2";
constexpr const char* kBatches =
    "--replicas 8 --gradient-accumulation 2 --device-iterations 2 --epochs 2 --eval-every 0 "
    "--limit-test 50";

cpu_set_t usable_cores() {
  cpu_set_t cores;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(cores), &cores), 0);
  return cores;
}

int first_core() {
  const auto cores = usable_cores();
  int core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  return core;
}

/// The launcher binds instances that have a core each; others are all held to one core.
Words command_for(const Contract& contract, const Layout& layout) {
  const auto cores = usable_cores();
  const bool has_cores = layout.instances <= CPU_COUNT(&cores);
  const bool is_bound = layout.bind == Bind::Bound;
  Words command;
  if (is_bound && !has_cores) command = {"taskset", "-c", std::to_string(first_core())};
  command.emplace_back(LOCKSTEP_BINARY);
  const auto options =
      std::string("train --model ") + contract.model + " " + contract.options + " " + kBatches +
      " --num-instances " + std::to_string(layout.instances) + " --num-workers " +
      std::to_string(layout.workers) + " --bind " + (is_bound && has_cores ? "core" : "none") +
      (layout.loader == Loader::Sync ? " --sync-dataloader" : " --async-dataloader") +
      " --transport " + (layout.transport == Transport::Local ? "local" : "shm");
  for (auto& word : words(options)) command.push_back(std::move(word));
  return command;
}

constexpr std::array kContracts{Contract{"resnet20", kSynthetic, kResnetLayouts},
                                Contract{"convnet", kSynthetic, kConvnetLayouts},
                                Contract{"mlp", kWide, kMlpLayouts}};

/// Model, instances, binding, loader, workers, transport.
using Row = std::array<int, 6>;

Row row_of(std::size_t model, const Layout& layout) {
  return {static_cast<int>(model),         layout.instances, static_cast<int>(layout.bind),
          static_cast<int>(layout.loader), layout.workers,   static_cast<int>(layout.transport)};
}

using Pairs = std::set<std::array<std::size_t, 4>>;

void add_pairs(const Row& row, Pairs& to) {
  for (std::size_t a = 0; a < row.size(); ++a) {
    for (std::size_t b = a + 1; b < row.size(); ++b) {
      to.insert({a, static_cast<std::size_t>(row[a]), b, static_cast<std::size_t>(row[b])});
    }
  }
}

/// All layouts that there can be.
std::vector<Layout> all_layouts() {
  std::vector<Layout> all;
  for (const int instances : {1, 2, 3, 4, 5, 8}) {
    for (const auto transport : {Transport::Local, Transport::Shm}) {
      if (transport == Transport::Local && instances > 1) continue;
      for (const auto bind : {Bind::Free, Bind::Bound}) {
        all.push_back({instances, bind, Loader::Sync, 0, transport});
        for (const int workers : {0, 1, 2, 3, 4}) {
          all.push_back({instances, bind, Loader::Async, workers, transport});
        }
      }
    }
  }
  return all;
}

TEST(TrainLayoutsTest, HoldEveryPairOfValues) {
  Pairs wanted;
  Pairs found;
  for (std::size_t model = 0; model < kContracts.size(); ++model) {
    for (const auto& layout : all_layouts()) add_pairs(row_of(model, layout), wanted);
    for (const auto& layout : kContracts[model].layouts) add_pairs(row_of(model, layout), found);
  }
  EXPECT_EQ(wanted.size(), 150U);
  EXPECT_EQ(found, wanted);
}

class TrainContractTest : public TrainRunsTest, public ::testing::WithParamInterface<Contract> {};

TEST_P(TrainContractTest, GivesTheSameBitsOnEveryLayout) {
  const auto& contract = GetParam();
  if (contract.options == kWide && !has_fashion_mnist()) {
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
  const auto first = name_of(contract.layouts.front());
  for (const auto& layout : contract.layouts) {
    const auto summary = record(name_of(layout), command_for(contract, layout));
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(summary.at("instances"), layout.instances);
    EXPECT_EQ(summary.at("optimizer_steps"), 8);
    expect_same(first, name_of(layout));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainContractTest, ::testing::ValuesIn(kContracts),
                         [](const auto& each) { return std::string(each.param.model); });

/// Runs that are started in other words, but are the same.
class TrainStartsTest : public TrainRunsTest {
 protected:
  static constexpr const char* kOptions =
      "--model convnet --dataset synthetic --size 300 --image-size 16x16x3 --batch-size 4 "
      "--epochs 1 --limit-test 50";

  Json under_launcher(const std::string& name, const std::string& launcher) const {
    return record(name, lockstep_command(words("run " + launcher + " " + LOCKSTEP_BINARY +
                                               " train " + kOptions)));
  }
};

TEST_F(TrainStartsTest, GivesTheSameBitsAloneByItselfAndUnderTheLauncher) {
  record_train("alone", std::string(kOptions) + " --replicas 8");
  record_train("itself", std::string(kOptions) + " --replicas 8 --num-instances 2");
  under_launcher("launcher", "--num-replicas 8 --num-instances 2");
  expect_same("alone", "itself");
  expect_same("alone", "launcher");
}

TEST_F(TrainStartsTest, GivesTheSameBitsAgainAndOthersWithAnotherSeed) {
  record_train("once", std::string(kOptions) + " --replicas 3");
  record_train("again", std::string(kOptions) + " --replicas 3");
  expect_same("once", "again");
  const auto other = record_train("other", std::string(kOptions) + " --replicas 3 --seed 1");
  EXPECT_NE(other.at("weights"), summary_of("once").at("weights"));
}

}  // namespace
}  // namespace lockstep::testing
