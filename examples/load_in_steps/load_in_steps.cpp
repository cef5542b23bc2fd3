// Divides the samples of a dataset in three ways: every instance reads all samples, each instance
// reads its part, and each replica gets its part. Run it in four instances:
//   lockstep run --num-replicas 8 --num-instances 4 load_in_steps
#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <cstdio>

namespace data = lockstep::data;

constexpr std::int64_t kSamples = 50'000;
constexpr std::int64_t kBatch = 32;

/// Reads one epoch of the plan, and prints the numbers of batches and samples.
void read(const char* how, const lockstep::World& world, const data::BatchPlanPtr& plan) {
  static const auto set = data::synthetic({.size = kSamples, .height = 4, .width = 4});
  data::Loader loader(set, plan);
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  for (auto& batch : loader.epoch(0)) {
    ++batches;
    samples += batch.size();
  }
  fmt::print("{}: instance {} reads {} batches of {}, {} of {} samples\n", how, world.instance(),
             batches, plan->samples_per_batch(), samples, kSamples);
}

data::TrainOrder order_for(std::int64_t readers) {
  return {kSamples, {.batch_size = kBatch, .replicas = readers}, {.seed = 2022}};
}

int main() try {
  const auto world = lockstep::World::init();

  // Every instance reads all samples, as if it were the only instance.
  read("alone", world, data::micro_batches(order_for(1), {0, 1}));

  // Each sample goes to one instance.
  const auto by_instance = order_for(world.num_instances());
  read("by instance", world, data::micro_batches(by_instance, {world.instance(), 1}));

  // Each sample goes to one replica. The samples of all replicas of an instance form one batch, as
  // in lockstep::DataLoader.
  const auto by_replica = order_for(world.num_replicas());
  read("by replica", world,
       data::iterations(by_replica, {world.first_replica(), world.num_local_replicas()}));
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
