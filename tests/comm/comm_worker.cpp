// A program for tests that run collectives in real processes: `comm_worker <what> [arguments]`.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/comm/sharded_update.h"
#include "lockstep/comm/world.h"
#include "tests/comm/collective_checks.h"

namespace lockstep::testing {
namespace {

using Arguments = std::vector<std::string>;

void say(const std::string& line) {
  const auto whole = line + "\n";
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, whole.data(), whole.size());
}

void every_collective(const World& world, const Arguments&) {
  for (const auto& collective : all_collectives()) {
    check_collective(world.communicator(), collective);
  }
}

void leaves(const World& world, const Arguments& arguments) {
  const int num_leaves = std::stoi(arguments.at(0));
  for (const auto type :
       {DataType::F16, DataType::BF16, DataType::F32, DataType::F64, DataType::I32}) {
    for (const auto op : {comm::ReduceOp::Sum, comm::ReduceOp::Mean}) {
      check_leaves(world.communicator(), type, op, 100003, num_leaves);
    }
  }
}

void mixture(const World& world, const Arguments& arguments) {
  check_mixture(world.communicator(), std::stoi(arguments.at(0)), 11);
}

/// All-reduces until something ends it.
void stream(const World& world, const Arguments&) {
  std::vector<float> values(3000, 1.0F);
  world.barrier();
  say(fmt::format("ready {}", ::getpid()));
  while (true) {
    world.all_reduce(comm::buffer_of(values, "gradients"), comm::ReduceOp::Mean);
    world.barrier();
  }
}

/// One instance is busy for long; it says so, or not.
void late(const World& world, const Arguments& arguments) {
  const double seconds = std::stod(arguments.at(0));
  const bool beats = arguments.at(1) == "beating";
  std::vector<float> values(10, 1.0F);
  world.all_reduce(comm::buffer_of(values));
  if (world.instance() == 1) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
      if (beats) world.communicator().heartbeat("evaluating");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  world.all_reduce(comm::buffer_of(values, "layer3"));
  say("done");
}

/// Instances disagree on the operation.
void disagree(const World& world, const Arguments&) {
  std::vector<float> values(world.instance() == 1 ? 512 : 1024, 1.0F);
  world.barrier();
  world.all_reduce(comm::buffer_of(values, "gradients"));
}

void leave_early(const World& world, const Arguments&) {
  world.barrier();
  if (world.instance() == 1) return;
  world.barrier();
}

void allocate_too_much(const World& world, const Arguments&) {
  world.communicator().allocate(std::size_t{1} << 50, "huge");
}

/// What is to happen to an instance in the midst of a step: "ATTEMPT:STEP:INSTANCE:HOW".
struct Accident {
  int attempt = 0;
  int step = 0;
  int instance = 0;
  std::string how;  ///< "kill", "stop" or an exit code
};

Accident parse_accident(const std::string& text) {
  std::istringstream stream(text);
  Accident accident;
  char colon = 0;
  stream >> accident.attempt >> colon >> accident.step >> colon >> accident.instance >> colon >>
      accident.how;
  return accident;
}

void suffer(const Accident& accident) {
  if (accident.how == "kill") ::kill(::getpid(), SIGKILL);
  if (accident.how == "stop") ::kill(::getpid(), SIGSTOP);
  if (accident.how != "stop") ::_exit(std::stoi(accident.how));
}

/// Trains in memory that outlives the instances: `train STEPS MILLISECONDS [accidents]`, where a
/// step takes so long. Instance 0 says what came of it.
void train(const World& world, const Arguments& arguments) {
  constexpr std::int64_t kCount = 40000;
  const auto steps = std::stoul(arguments.at(0));
  const std::chrono::milliseconds step_time(std::stoi(arguments.at(1)));
  std::vector<Accident> accidents;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    accidents.push_back(parse_accident(arguments[i]));
  }
  auto& communicator = world.communicator();
  comm::ShardedUpdate update(communicator,
                             {.count = kCount,
                              .num_leaves = world.num_local_replicas(),
                              .state_bytes = kCount * sizeof(float)},
                             "weights");
  if (update.is_recovered()) {
    if (world.instance() == 0) say(fmt::format("goes on after step {}", update.version() - 1));
  } else {
    if (world.instance() == 0) std::memset(update.next_state(), 0, kCount * sizeof(float));
    update.publish();
  }
  while (update.version() <= steps) {
    const auto step = static_cast<int>(update.version());
    for (int i = 0; i < world.num_local_replicas(); ++i) {
      auto* leaf = static_cast<float*>(update.leaf());
      for (int k = 0; k < kCount; ++k) {
        leaf[k] = 1.0F / static_cast<float>(1 + step * 31 + (world.first_replica() + i) * 7 + k);
      }
      update.take_leaf();
    }
    std::this_thread::sleep_for(step_time);
    update.reduce({});
    for (const auto part : update.parts()) {
      const auto* current = reinterpret_cast<const float*>(update.state()) + part.first;
      auto* next = reinterpret_cast<float*>(update.next_state()) + part.first;
      for (std::size_t k = 0; k < part.sum.size(); ++k) next[k] = current[k] * 0.9F + part.sum[k];
      for (const auto& accident : accidents) {
        if (accident.attempt == world.restart_count() && accident.step == step &&
            accident.instance == world.instance()) {
          suffer(accident);
        }
      }
    }
    update.commit();
    communicator.note_step(step);
  }
  if (world.instance() == 0) {
    const auto digest =
        Fnv().add({reinterpret_cast<const char*>(update.state()), kCount * sizeof(float)}).value();
    say(fmt::format("digest {:016x} after step {}", digest, update.version() - 1));
  }
  communicator.barrier();
}

const std::map<std::string, std::function<void(const World&, const Arguments&)>> kPrograms{
    {"every_collective", every_collective},
    {"leaves", leaves},
    {"mixture", mixture},
    {"stream", stream},
    {"late", late},
    {"disagree", disagree},
    {"leave_early", leave_early},
    {"allocate_too_much", allocate_too_much},
    {"train", train},
};

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    lockstep::testing::kPrograms.at(arguments.at(0))(lockstep::World::init(),
                                                     {arguments.begin() + 1, arguments.end()});
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << lockstep::describe(error) << std::flush;
    return lockstep::exit_code(error.kind());
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
