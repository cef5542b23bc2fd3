#include "lockstep/plan/plan_json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/plan/parse_json.h"

namespace lockstep::plan {
namespace {

constexpr std::array kSchedules{PipelineSchedule::OneForwardOneBackward, PipelineSchedule::GPipe,
                                PipelineSchedule::Sequential};
constexpr std::array kRecomputes{Recompute::None, Recompute::Stage, Recompute::Blocks};

// Each type lists its fields once, for writing and for reading.

/// Const or not.
template <typename Value, typename Type>
concept Is = std::is_same_v<std::remove_const_t<Value>, Type>;

void visit(auto&& field, Is<BlockProfile> auto& block) {
  field("name", block.name);
  field("shares", block.shares);
  field("shares_with", block.shares_with);
  field("forward_s", block.forward_s);
  field("backward_s", block.backward_s);
  field("parameter_bytes", block.parameter_bytes);
  field("buffer_bytes", block.buffer_bytes);
  field("output_bytes", block.output_bytes);
  field("kept_bytes", block.kept_bytes);
  field("forward_bytes", block.forward_bytes);
  field("backward_bytes", block.backward_bytes);
}

void visit(auto&& field, Is<ModelProfile> auto& profile) {
  field("is_timed", profile.is_timed);
  field("blocks", profile.blocks);
}

void visit(auto&& field, Is<StagePlan> auto& stage) {
  field("first_block", stage.first_block);
  field("num_blocks", stage.num_blocks);
  field("begins_with", stage.begins_with);
  field("ends_with", stage.ends_with);
  field("forward_s", stage.forward_s);
  field("backward_s", stage.backward_s);
  field("parameter_bytes", stage.parameter_bytes);
  field("output_bytes", stage.output_bytes);
  field("kept_bytes", stage.kept_bytes);
  field("most_in_flight", stage.most_in_flight);
}

void visit(auto&& field, Is<PlacedStage> auto& placed) {
  field("replica", placed.replica);
  field("stage", placed.stage);
}

void visit(auto&& field, Is<DeviceMemory> auto& memory) {
  field("activations", memory.activations);
  field("gradients", memory.gradients);
  field("buffers", memory.buffers);
}

void visit(auto&& field, Is<DevicePlan> auto& device) {
  field("device", device.device);
  field("cores", device.cores);
  field("stages", device.stages);
  field("memory", device.memory);
}

void visit(auto&& field, Is<ElementRange> auto& range) {
  field("first", range.first);
  field("count", range.count);
}

void visit(auto&& field, Is<topology::ReplicaRange> auto& range) {
  field("first", range.first);
  field("count", range.count);
}

void visit(auto&& field, Is<topology::JobShape> auto& shape) {
  field("replicas", shape.replicas);
  field("instances", shape.instances);
  field("devices_per_replica", shape.devices_per_replica);
}

void visit(auto&& field, Is<InstancePlan> auto& instance) {
  field("instance", instance.instance);
  field("replicas", instance.replicas);
  field("slice", instance.slice);
  field("loader_workers", instance.loader_workers);
  field("loader_bytes", instance.loader_bytes);
  field("devices", instance.devices);
}

void visit(auto&& field, Is<SharedBytes> auto& shared) {
  field("weights", shared.weights);
  field("optimizer", shared.optimizer);
  field("gradients", shared.gradients);
  field("total", shared.total);
}

void visit(auto&& field, Is<Plan> auto& plan) {
  field("model", plan.model);
  field("shape", plan.shape);
  field("threads_per_device", plan.threads_per_device);
  field("batch_size", plan.batch_size);
  field("micro_batches", plan.micro_batches);
  field("schedule", plan.schedule);
  field("recompute", plan.recompute);
  field("stages", plan.stages);
  field("idle_share", plan.idle_share);
  field("step_s", plan.step_s);
  field("sequential_s", plan.sequential_s);
  field("instances", plan.instances);
  field("shared", plan.shared);
  field("available_bytes", plan.available_bytes);
  field("buckets", plan.buckets);
  field("profile", plan.profile);
}

template <typename Value>
concept Plain = std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>;

template <typename Element>
Json to_value(const std::vector<Element>& elements);

template <typename Value>
Json to_value(const Value& value) {
  if constexpr (Plain<Value>) {
    return value;
  } else if constexpr (std::is_enum_v<Value>) {
    return name_of(value);
  } else {
    Json object = Json::object();
    visit([&](const char* name, const auto& field) { object[name] = to_value(field); }, value);
    return object;
  }
}

template <typename Element>
Json to_value(const std::vector<Element>& elements) {
  Json array = Json::array();
  for (const auto& element : elements) array.push_back(to_value(element));
  return array;
}

/// A value in the text, and where it is: "stages[1].kept_bytes".
struct Found {
  const Json& json;
  std::string path;
};

Error wrong(const Found& found, std::string_view expected) {
  return {ErrorKind::Data, fmt::format("plan: expected {} as '{}', found {}", expected, found.path,
                                       described(found.json))};
}

void read(const Found& found, std::string& to) {
  if (!found.json.is_string()) throw wrong(found, "a text");
  to = found.json.get<std::string>();
}

void read(const Found& found, bool& to) {
  if (!found.json.is_boolean()) throw wrong(found, "true or false");
  to = found.json.get<bool>();
}

void read(const Found& found, double& to) {
  if (!found.json.is_number()) throw wrong(found, "a number");
  to = found.json.get<double>();
  if (!std::isfinite(to) || to < 0) throw wrong(found, "a number from 0 on");
}

/// All whole numbers count something, or are places in a list.
template <std::signed_integral Integer>
void read(const Found& found, Integer& to) {
  constexpr auto kMost = std::numeric_limits<Integer>::max();
  // What is not negative is parsed as unsigned.
  if (!found.json.is_number_unsigned() || found.json.get<std::uint64_t>() > kMost) {
    throw wrong(found, fmt::format("a whole number from 0 to {}", kMost));
  }
  to = static_cast<Integer>(found.json.get<std::uint64_t>());
}

template <typename Enum, std::size_t count>
void read_name(const Found& found, const std::array<Enum, count>& values, Enum& to) {
  std::string names;
  for (const auto value : values) {
    if (found.json == name_of(value)) {
      to = value;
      return;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(value));
  }
  throw wrong(found, fmt::format("one of {}", names));
}

void read(const Found& found, PipelineSchedule& to) {
  read_name(found, kSchedules, to);
}
void read(const Found& found, Recompute& to) {
  read_name(found, kRecomputes, to);
}

template <typename Element>
void read(const Found& found, std::vector<Element>& to);

template <typename Value>
requires std::is_class_v<Value>
void read(const Found& found, Value& to) {
  if (!found.json.is_object()) throw wrong(found, "an object");
  visit(
      [&](const char* name, auto& field) {
        auto path = found.path.empty() ? name : fmt::format("{}.{}", found.path, name);
        const auto value = found.json.find(name);
        if (value == found.json.end()) {
          throw Error(ErrorKind::Data, fmt::format("plan: expected '{}', found nothing", path));
        }
        read(Found{*value, std::move(path)}, field);
      },
      to);
}

template <typename Element>
void read(const Found& found, std::vector<Element>& to) {
  if (!found.json.is_array()) throw wrong(found, "an array");
  for (std::size_t i = 0; i < found.json.size(); ++i) {
    read(Found{found.json[i], fmt::format("{}[{}]", found.path, i)}, to.emplace_back());
  }
}

void require(bool condition, std::string_view expected) {
  if (!condition) throw Error(ErrorKind::Data, fmt::format("plan: expected {}", expected));
}

/// What its users index with.
void check_references(const Plan& plan) {
  const auto& blocks = plan.profile.blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    require(
        std::cmp_less_equal(blocks[i].shares_with, i),
        fmt::format("block {} to share with one before it, found {}", i, blocks[i].shares_with));
  }
  std::int64_t end = 0;
  for (const auto& stage : plan.stages) {
    require(stage.first_block == end,
            fmt::format("a stage to begin with block {}, found {}", end, stage.first_block));
    end += stage.num_blocks;
  }
  require(std::cmp_less_equal(end, blocks.size()),
          fmt::format("stages of {} blocks in all, found {}", blocks.size(), end));
  for (const auto& instance : plan.instances) {
    for (const auto& device : instance.devices) {
      for (const auto& placed : device.stages) {
        require(
            std::cmp_less(placed.stage, plan.stages.size()),
            fmt::format("stages below {} on a device, found {}", plan.stages.size(), placed.stage));
      }
    }
  }
}

}  // namespace

std::string to_json(const Plan& plan) {
  // Names need not be UTF-8, and JSON must be: what is not is replaced.
  return to_value(plan).dump(2, ' ', false, Json::error_handler_t::replace);
}

Plan plan_from_json(std::string_view text) {
  const auto json = parse_json("plan", text);
  Plan plan;
  if (!json.is_object()) {
    throw Error(ErrorKind::Data,
                fmt::format("plan: expected an object, found {}", described(json)));
  }
  read(Found{json, ""}, plan);
  check_references(plan);
  return plan;
}

}  // namespace lockstep::plan
