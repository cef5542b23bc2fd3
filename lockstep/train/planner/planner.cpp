#include "lockstep/train/planner/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/base/owned_cores.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/base/version.h"
#include "lockstep/comm/sharded_update.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/nn/block_profile.h"
#include "lockstep/nn/block_sharing.h"
#include "lockstep/plan/plan_json.h"
#include "lockstep/plan/stage_split.h"
#include "lockstep/topology/cache_folder.h"
#include "lockstep/train/backends/batch_tensors.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/train/state/shared_state.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {
namespace {

/// Memory is proportional to the number of samples, so few samples are enough to measure it.
constexpr std::int64_t kSamplesForMemory = 2;
constexpr int kTimedRounds = 3;

/// The layout of the model's numbers, and the memory that instances share.
struct ModelNumbers {
  WeightLayout weights;
  comm::ShardedUpdate::Shape update;
  plan::SharedBytes shared;
};

ModelNumbers numbers_of(const PlanSubject& subject, const std::vector<nn::Slot>& slots) {
  const auto& optimizer = subject.optimizer;
  const bool has_average = optimizer.average_decay().has_value();
  auto weights = lay_out_weights(slots, optimizer);
  const StateShape state(weights, optimizer.num_states(), has_average);
  const LeafTotals totals(weights, subject.carriers.shape.replicas, subject.num_metrics);
  auto update = shape_of_update(weights, state, totals, 1);
  std::vector<int> leaves;
  for (const auto& instance : subject.carriers.instances) leaves.push_back(instance.replicas.count);
  const auto bytes = [](std::int64_t floats) {
    return floats * static_cast<std::int64_t>(sizeof(float));
  };
  const auto total = static_cast<std::int64_t>(comm::ShardedUpdate::memory_needed(update, leaves));
  const plan::SharedBytes shared{
      .weights = bytes(weights.num_elements + weights.num_frozen),
      .optimizer = bytes(weights.num_parameters * (optimizer.num_states() + (has_average ? 1 : 0))),
      .gradients = total - static_cast<std::int64_t>(2 * state.bytes() + update.common_bytes),
      .total = total};
  return {std::move(weights), std::move(update), shared};
}

std::string hash_of(const nn::Model& model) {
  Fnv hash;
  const auto names = model.block_names();
  for (std::size_t block = 0; block < names.size(); ++block) {
    hash.add(names[block]).add(0);
    for (const auto& named : model.block_tensors(block)) hash.add(named.name).add(0);
    hash.add(0);
  }
  for (const auto& slot : nn::slots_of(model.tensors())) {
    for (const auto& name : slot.names) hash.add(name).add(0);
    hash.add(c10::toString(slot.tensor().scalar_type()));
    hash.add(slot.tensor().requires_grad() ? 1 : 0);
    for (const auto extent : slot.tensor().sizes()) hash.add(static_cast<std::uint64_t>(extent));
  }
  return fmt::format("{:016x}", hash.value());
}

std::string text_of(const plan::PlanRequest::Instance& instance) {
  return fmt::format("{}+{} on {} of {} with {} workers and {} batches of {}",
                     instance.replicas.first, instance.replicas.count,
                     fmt::join(instance.device_ids, ","), fmt::join(instance.cores, ","),
                     instance.loader_workers, instance.loader_buffers, instance.batch_bytes);
}

std::string text_of(const JobCarriers& carriers) {
  std::vector<std::string> instances;
  for (const auto& instance : carriers.instances) instances.push_back(text_of(instance));
  return fmt::format("R={} I={} S={} T={} cores={}: {}", carriers.shape.replicas,
                     carriers.shape.instances, carriers.shape.devices_per_replica,
                     carriers.threads_per_device, carriers.host_cores, fmt::join(instances, "; "));
}

std::string text_of(const at::Tensor& input) {
  return fmt::format("{} [{}]", c10::toString(input.scalar_type()),
                     fmt::join(input.sizes().vec(), ", "));
}

std::string machine_text() {
  const auto machine = launch::discover_machine();
  return fmt::format("{}, {} MiB", machine.cpu_model, machine.memory_bytes >> 20);
}

plan::PlanKey key_of(const PlanSubject& subject, const nn::Model& model) {
  const auto& options = subject.options;
  const auto& optimizer = subject.optimizer;
  return {{{"model", hash_of(model)},
           {"input", text_of(subject.input(kSamplesForMemory))},
           {"batch_size", std::to_string(subject.batch_size)},
           {"micro_batches", std::to_string(options.gradient_accumulation())},
           {"pipeline", std::string(name_of(options.pipeline()))},
           {"recompute", std::string(name_of(options.recompute()))},
           {"split", fmt::format("{}", fmt::join(options.stage_beginnings(), ","))},
           {"optimizer", fmt::format("{}, {} states{}", optimizer.name(), optimizer.num_states(),
                                     optimizer.average_decay() ? ", average" : "")},
           {"metrics", std::to_string(subject.num_metrics)},
           {"topology", text_of(subject.carriers)},
           {"lockstep", fmt::format("{} {} {}", version(), commit(), torch_version())},
           {"machine", machine_text()}}};
}

plan::ModelProfile measure_with(const PlanSubject& subject, const nn::Model& model,
                                std::int64_t samples, int rounds) {
  return nn::profile_blocks(model, subject.input,
                            {.samples = samples,
                             .rounds = rounds,
                             .micro_batch = subject.batch_size,
                             .on_block = [&](int done, int total) {
                               subject.on_block(done, total);
                               subject.heartbeat();
                             }});
}

/// The model may require its batch size, or values that the example input does not have. Training
/// does not depend on this measurement.
plan::ModelProfile measure_memory(const PlanSubject& subject, const nn::Model& model) {
  try {
    return measure_with(subject, model, std::min(subject.batch_size, kSamplesForMemory), 0);
  } catch (const std::exception&) {  // libtorch also throws exceptions of the standard library
  }
  try {
    return measure_with(subject, model, subject.batch_size, 0);
  } catch (const std::exception& error) {
    subject.tell(
        fmt::format("the plan does not include the memory of activations: {}", error.what()));
    return nn::list_blocks(model);
  }
}

/// Only a split needs the times of blocks.
plan::ModelProfile measure(const PlanSubject& subject, const nn::Model& model) {
  const bool has_stages = subject.carriers.shape.devices_per_replica > 1;
  if (has_stages || subject.options.recompute() != Recompute::None) nn::check_owners(model);
  return has_stages ? measure_with(subject, model, subject.batch_size, kTimedRounds)
                    : measure_memory(subject, model);
}

plan::StageSplit choose_split(const PlanSubject& subject, const plan::ModelProfile& profile) {
  const auto& beginnings = subject.options.stage_beginnings();
  return beginnings.empty()
             ? plan::split_evenly(profile, subject.carriers.shape.devices_per_replica)
             : plan::split_at(profile, beginnings);
}

plan::Plan make(const PlanSubject& subject, nn::Model& model) {
  const auto numbers = numbers_of(subject, nn::slots_of(model.tensors()));
  plan::PlanRequest request{.model = subject.name,
                            .shape = subject.carriers.shape,
                            .threads_per_device = subject.carriers.threads_per_device,
                            .batch_size = subject.batch_size,
                            .micro_batches = subject.options.gradient_accumulation(),
                            .schedule = subject.options.pipeline(),
                            .recompute = subject.options.recompute(),
                            .host_cores = subject.carriers.host_cores,
                            .instances = subject.carriers.instances,
                            .num_elements = numbers.update.count,
                            .shared = numbers.shared};
  const auto size = static_cast<int>(request.instances.size());
  for (int i = 0; i < size; ++i) {
    const auto slice = comm::ShardedUpdate::slice_of(numbers.update, i, size);
    request.instances[static_cast<std::size_t>(i)].slice = {slice.first, slice.count};
  }
  choose_split(subject, nn::list_blocks(model));  // refuses an impossible split before measuring
  const auto profile = measure(subject, model);
  return plan::make_plan(request, profile, choose_split(subject, profile));
}

/// Whether the stages contain each block of the model once.
bool covers(const std::vector<plan::StagePlan>& stages, const std::vector<std::string>& blocks) {
  std::size_t next = 0;
  for (const auto& stage : stages) {
    const auto first = static_cast<std::size_t>(stage.first_block);
    const auto count = static_cast<std::size_t>(stage.num_blocks);
    if (first != next || count < 1 || count > blocks.size() - next) return false;
    next += count;
  }
  return next == blocks.size();
}

/// A file may have any content, even with the right key.
std::string complaint_of(const plan::Plan& plan, const PlanSubject& subject,
                         const std::vector<std::string>& blocks) {
  std::vector<std::string> planned;
  for (const auto& block : plan.profile.blocks) planned.push_back(block.name);
  if (planned != blocks) return "made for a model of other blocks";
  const auto& shape = subject.carriers.shape;
  const bool fits = plan.shape == shape && std::ssize(plan.instances) == shape.instances &&
                    std::ssize(plan.stages) == shape.devices_per_replica &&
                    plan.batch_size == subject.batch_size &&
                    plan.micro_batches == subject.options.gradient_accumulation() &&
                    plan.schedule == subject.options.pipeline() &&
                    plan.recompute == subject.options.recompute();
  return fits && covers(plan.stages, blocks) ? "" : "made for something else";
}

std::filesystem::path folder_of(const Options& options) {
  if (!options.cache().empty()) return options.cache();
  if (const auto& path = options.world().identity().cache_path) return *path;
  return topology::cache_folder(topology::Environment::of_this_process());
}

/// What an instance sends to the others: facts, then the ids of its devices and the CPUs of its
/// cores. -1 pads both lists, so that all instances send the same number of words.
struct Card {
  static constexpr std::size_t kFacts = 5;
  static constexpr std::size_t kMostCores = 4096;

  plan::PlanRequest::Instance instance;
  std::vector<std::int64_t> cpus;

  std::vector<std::int64_t> words(std::size_t most_stages) const {
    std::vector<std::int64_t> words{instance.replicas.first, instance.replicas.count,
                                    instance.loader_workers, instance.loader_buffers,
                                    instance.batch_bytes};
    words.insert(words.end(), instance.device_ids.begin(), instance.device_ids.end());
    words.resize(kFacts + most_stages, -1);
    words.insert(words.end(), cpus.begin(), cpus.end());
    words.resize(kFacts + most_stages + kMostCores, -1);
    return words;
  }
};

Card card_from(std::span<const std::int64_t> words, int stages, std::size_t most_stages) {
  Card card{.instance = {.replicas = {static_cast<int>(words[0]), static_cast<int>(words[1])},
                         .loader_workers = static_cast<int>(words[2]),
                         .loader_buffers = static_cast<int>(words[3]),
                         .batch_bytes = words[4]},
            .cpus = {}};
  const auto num_stages = static_cast<std::size_t>(card.instance.replicas.count * stages);
  for (const auto id : words.subspan(Card::kFacts, num_stages)) {
    card.instance.device_ids.push_back(static_cast<int>(id));
  }
  for (const auto cpu : words.subspan(Card::kFacts + most_stages)) {
    if (cpu >= 0) card.cpus.push_back(cpu);
  }
  return card;
}

/// Sets the cores of each instance, as indices into the cores of all. An instance that may use all
/// cores has no list.
void add_cores(const std::vector<Card>& cards, JobCarriers& carriers) {
  std::vector<std::int64_t> all;
  for (const auto& card : cards) {
    all.insert(all.end(), card.cpus.begin(), card.cpus.end());
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  carriers.host_cores = static_cast<int>(all.size());
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const auto& cpus = cards[i].cpus;
    if (cpus.size() == all.size()) continue;
    for (const auto cpu : cpus) {
      carriers.instances[i].cores.push_back(
          static_cast<int>(std::ranges::lower_bound(all, cpu) - all.begin()));
    }
  }
}

plan::PlanRequest::Instance own_instance(const DataLoader& loader) {
  const auto& layout = loader.layout();
  return {.replicas = layout.local,
          .device_ids = layout.ids_by_stage(),
          .loader_workers = loader.workers(),
          .loader_buffers = loader.buffers(),
          .batch_bytes = batch_bytes(loader)};
}

int first_devices(const std::vector<int>& device_ids, int stages) {
  std::set<int> first;
  for (std::size_t i = 0; i < device_ids.size(); i += static_cast<std::size_t>(stages)) {
    first.insert(device_ids[i]);
  }
  return static_cast<int>(first.size());
}

}  // namespace

JobCarriers carriers_of(const Options& options, const DataLoader& loader) {
  const auto& world = options.world();
  const auto& layout = loader.layout();
  JobCarriers carriers{.shape = {.replicas = layout.replicas,
                                 .instances = world.num_instances(),
                                 .devices_per_replica = layout.stages},
                       .threads_per_device = layout.threads_per_device};
  const int most_replicas = (layout.replicas + world.num_instances() - 1) / world.num_instances();
  const auto most_stages = static_cast<std::size_t>(most_replicas * layout.stages);
  Card mine{.instance = own_instance(loader), .cpus = {}};
  for (const auto& core : launch::discover_machine().cores) {
    if (mine.cpus.size() < Card::kMostCores) mine.cpus.push_back(core.cpus.front());
  }
  const auto words = mine.words(most_stages);
  std::vector<std::int64_t> all(words.size() * static_cast<std::size_t>(world.num_instances()));
  world.all_gather({words.data(), std::ssize(words), DataType::I64, "plan"},
                   {all.data(), std::ssize(all), DataType::I64, "plan"});
  std::vector<Card> cards;
  for (std::size_t at = 0; at < all.size(); at += words.size()) {
    const auto of_instance = std::span(all).subspan(at, words.size());
    cards.push_back(card_from(of_instance, layout.stages, most_stages));
    carriers.instances.push_back(cards.back().instance);
  }
  add_cores(cards, carriers);
  return carriers;
}

std::int64_t batch_bytes(const DataLoader& loader) {
  std::size_t bytes = 0;
  for (const auto& field : loader.fields()) bytes += data::bytes_of(field);
  return loader.shape().batch_size * static_cast<std::int64_t>(bytes);
}

JobCarriers carriers_of(const launch::JobPlan& job, const Options& options,
                        const PlannedLoading& loading) {
  const auto machine = launch::discover_machine();
  JobCarriers carriers{.shape = job.placement.shape,
                       .threads_per_device = job.threads_per_device,
                       .host_cores = static_cast<int>(machine.cores.size())};
  for (const auto& planned : job.instances) {
    plan::PlanRequest::Instance instance{.replicas = planned.identity.local_replicas,
                                         .device_ids = planned.identity.device_ids,
                                         .batch_bytes = loading.batch_bytes};
    const bool is_bound = !planned.cores.empty() && planned.cores.size() < machine.cores.size();
    if (is_bound) instance.cores = planned.cores;
    instance.loader_workers =
        data::workers_for(loading.mode, loading.workers,
                          is_bound ? static_cast<int>(planned.cpus.size()) : owned_cores());
    instance.loader_buffers = batches_at_once(
        options, first_devices(instance.device_ids, carriers.shape.devices_per_replica));
    carriers.instances.push_back(std::move(instance));
  }
  return carriers;
}

FoundPlan find_plan(const PlanSubject& subject) {
  plan::PlanKey key;
  subject.with_model([&](nn::Model& model) { key = key_of(subject, model); });
  std::vector<std::string> blocks;
  subject.with_model([&](nn::Model& model) { blocks = model.block_names(); });
  const plan::PlanCache cache(
      folder_of(subject.options),
      {.tell = subject.tell,
       .complaint = [&](const plan::Plan& plan) { return complaint_of(plan, subject, blocks); },
       .heartbeat = subject.heartbeat});
  auto found = cache.get(key, [&] {
    plan::Plan made;
    subject.with_model([&](nn::Model& model) { made = make(subject, model); });
    return made;
  });
  found.plan.model = subject.name;
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  found.plan.available_bytes = static_cast<std::int64_t>(std::min(available_memory(), kMost));
  return {std::move(found.plan), key.digest(),
          found.is_kept ? cache.path_of(key) : std::filesystem::path(), found.is_cached};
}

FoundPlan agree_on_plan(const PlanSubject& subject) {
  const auto& world = subject.options.world();
  if (world.num_instances() == 1) return find_plan(subject);
  FoundPlan found;
  std::string text;
  if (world.instance() == 0) {
    try {
      found = find_plan(subject);
    } catch (const Error& error) {
      world.communicator().report_failure(error);
      throw;
    }
    text = plan::to_json(found.plan);
  }
  auto size = std::ssize(text);
  world.broadcast({&size, 1, DataType::I64, "plan"}, 0);
  text.resize(static_cast<std::size_t>(size));
  world.broadcast({text.data(), size, DataType::U8, "plan"}, 0);
  if (world.instance() != 0) found.plan = plan::plan_from_json(text);
  return found;
}

}  // namespace lockstep::train
