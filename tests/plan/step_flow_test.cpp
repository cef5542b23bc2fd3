#include "lockstep/plan/step_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

namespace lockstep::plan {
namespace {

using Kind = FlowTask::Kind;

/// Stages of all replicas one after another, round robin over devices, as a host places them.
FlowShape flow_shape(PipelineSchedule schedule, int replicas, int stages, int devices,
                     std::int64_t micro_batches) {
  FlowShape shape{.schedule = schedule, .micro_batches = micro_batches};
  std::set<int> first;
  for (int replica = 0; replica < replicas; ++replica) {
    auto& on = shape.device_of.emplace_back();
    for (int stage = 0; stage < stages; ++stage) {
      on.push_back((replica * stages + stage) % devices);
    }
    first.insert(on.front());
  }
  shape.side_by_side = static_cast<int>(first.size());
  const auto in_flight =
      most_in_flight({.schedule = schedule, .stages = stages, .micro_batches = micro_batches}, 0);
  shape.most_batches = shape.side_by_side * (in_flight + 1) + 2;
  return shape;
}

/// "F1.0" is the forward pass of micro-batch 0 in stage 1, "H" a leaf that is handed in.
std::string name_of(const FlowTask& task) {
  if (task.kind == Kind::HandIn) return "H" + std::to_string(task.stage);
  return (task.kind == Kind::Forward ? "F" : "B") + std::to_string(task.stage) + "." +
         std::to_string(task.micro_batch);
}

/// What one device does, where all of it takes equally long.
std::vector<std::string> order_on(const FlowShape& shape, int device) {
  StepFlow flow(shape);
  int devices = 0;
  for (const auto& on : shape.device_of) {
    for (const int each : on) devices = std::max(devices, each + 1);
  }
  std::vector<std::string> order;
  while (true) {
    std::vector<FlowTask> tasks;
    for (int each = 0; each < devices; ++each) {
      const auto task = flow.peek(each);
      if (!task) continue;
      tasks.push_back(*task);
      if (each == device) order.push_back(name_of(*task));
    }
    if (tasks.empty()) return order;
    for (const auto& task : tasks) flow.done(task);
  }
}

TEST(StepFlowTest, GoesBackwardAsSoonAsItCan) {
  const auto shape = flow_shape(PipelineSchedule::OneForwardOneBackward, 1, 2, 2, 4);
  EXPECT_THAT(order_on(shape, 0), ::testing::ElementsAre("F0.0", "F0.1", "B0.0", "F0.2", "B0.1",
                                                         "F0.3", "B0.2", "B0.3", "H0"));
  EXPECT_THAT(order_on(shape, 1), ::testing::ElementsAre("F1.0", "B1.0", "F1.1", "B1.1", "F1.2",
                                                         "B1.2", "F1.3", "B1.3", "H1"));
}

TEST(StepFlowTest, GoesForwardWithAllFirst) {
  const auto shape = flow_shape(PipelineSchedule::GPipe, 1, 2, 2, 3);
  EXPECT_THAT(order_on(shape, 0),
              ::testing::ElementsAre("F0.0", "F0.1", "F0.2", "B0.0", "B0.1", "B0.2", "H0"));
  EXPECT_THAT(order_on(shape, 1),
              ::testing::ElementsAre("F1.0", "F1.1", "F1.2", "B1.0", "B1.1", "B1.2", "H1"));
}

TEST(StepFlowTest, HasOneStageAtATimeAtWork) {
  const auto shape = flow_shape(PipelineSchedule::Sequential, 1, 3, 3, 2);
  StepFlow flow(shape);
  for (int done = 0; done < 12; ++done) {
    std::vector<FlowTask> tasks;
    for (int device = 0; device < 3; ++device) {
      const auto task = flow.peek(device);
      if (task && task->kind != Kind::HandIn) tasks.push_back(*task);
    }
    ASSERT_EQ(tasks.size(), 1U) << done;
    flow.done(tasks.front());
  }
}

TEST(StepFlowTest, FollowsAReplicaWithTheNextWithoutAGap) {
  const auto shape = flow_shape(PipelineSchedule::OneForwardOneBackward, 2, 2, 2, 2);
  const auto order = order_on(shape, 1);
  EXPECT_THAT(order, ::testing::ElementsAre("F1.0", "B1.0", "F1.1", "B1.1", "H1", "F1.0", "B1.0",
                                            "F1.1", "B1.1", "H1"));
}

TEST(StepFlowTest, TakesReplicasOfOneStageOneAfterAnother) {
  const auto shape = flow_shape(PipelineSchedule::OneForwardOneBackward, 3, 1, 1, 2);
  EXPECT_THAT(order_on(shape, 0),
              ::testing::ElementsAre("F0.0", "B0.0", "F0.1", "B0.1", "H0", "F0.0", "B0.0", "F0.1",
                                     "B0.1", "H0", "F0.0", "B0.0", "F0.1", "B0.1", "H0"));
}

struct Layout {
  PipelineSchedule schedule;
  int replicas, stages, devices;
  std::int64_t micro_batches;
};
void PrintTo(const Layout& layout, std::ostream* out) {
  *out << lockstep::name_of(layout.schedule) << " R" << layout.replicas << " S" << layout.stages
       << " D" << layout.devices << " G" << layout.micro_batches;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const auto schedule : {PipelineSchedule::OneForwardOneBackward, PipelineSchedule::GPipe,
                              PipelineSchedule::Sequential}) {
    for (const int replicas : {1, 2, 3, 5}) {
      for (const int stages : {1, 2, 3, 4}) {
        for (const int devices : {1, 2, 3, 4, 7}) {
          if (devices > replicas * stages) continue;
          for (const std::int64_t micro_batches : {1, 2, 5}) {
            all.push_back({schedule, replicas, stages, devices, micro_batches});
          }
        }
      }
    }
  }
  return all;
}

/// Watches every promise while threads take their tasks.
class Watcher {
 public:
  Watcher(const FlowShape& shape, const Layout& layout) : shape_(shape), layout_(layout) {}

  void begin(const FlowTask& task) {
    const std::lock_guard lock(mutex_);
    auto& forward = forward_[{task.replica, task.stage}];
    auto& backward = backward_[{task.replica, task.stage}];
    if (task.kind == Kind::Forward) {
      EXPECT_EQ(task.micro_batch, forward);
      if (task.stage > 0) {
        EXPECT_GT((forward_[{task.replica, task.stage - 1}]), task.micro_batch);
      } else {
        ++batches_;
      }
      EXPECT_LE(batches_, shape_.most_batches);
      EXPECT_LT(forward - backward, most_in_flight({.schedule = layout_.schedule,
                                                    .stages = layout_.stages,
                                                    .micro_batches = layout_.micro_batches},
                                                   task.stage));
    } else if (task.kind == Kind::Backward) {
      EXPECT_EQ(task.micro_batch, backward);
      EXPECT_LT(backward, forward);
      if (task.stage + 1 < layout_.stages) {
        EXPECT_GT((backward_[{task.replica, task.stage + 1}]), task.micro_batch);
      }
    } else {
      EXPECT_EQ(task.replica, handed_in_ / layout_.stages);
      EXPECT_EQ(backward, layout_.micro_batches);
    }
  }
  void end(const FlowTask& task) {
    const std::lock_guard lock(mutex_);
    if (task.kind == Kind::Forward) ++forward_[{task.replica, task.stage}];
    if (task.kind == Kind::Backward) {
      ++backward_[{task.replica, task.stage}];
      if (task.stage == 0) --batches_;
    }
    if (task.kind == Kind::HandIn) ++handed_in_;
  }
  int handed_in() const { return handed_in_; }

 private:
  const FlowShape& shape_;
  const Layout& layout_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::int64_t> forward_, backward_;
  std::int64_t batches_ = 0;
  int handed_in_ = 0;
};

TEST(StepFlowTest, EndsOnThreadsWithEveryPromiseKeptWhateverTheLayout) {
  for (const auto& layout : layouts()) {
    SCOPED_TRACE(::testing::PrintToString(layout));
    const auto shape = flow_shape(layout.schedule, layout.replicas, layout.stages, layout.devices,
                                  layout.micro_batches);
    StepFlow flow(shape);
    for (int step = 0; step < 2; ++step) {
      Watcher watcher(shape, layout);
      flow.restart();
      std::vector<std::jthread> threads;
      for (int device = 0; device < layout.devices; ++device) {
        threads.emplace_back([&, device] {
          while (const auto task = flow.next(device)) {
            watcher.begin(*task);
            watcher.end(*task);
            flow.done(*task);
          }
        });
      }
      threads.clear();
      EXPECT_EQ(watcher.handed_in(), layout.replicas * layout.stages);
    }
  }
}

TEST(StepFlowTest, LetsNobodyWaitForOneThatGaveUp) {
  StepFlow flow(flow_shape(PipelineSchedule::OneForwardOneBackward, 1, 2, 2, 2));
  std::jthread waits([&] { EXPECT_FALSE(flow.next(1).has_value()); });
  flow.give_up();
  waits.join();
  EXPECT_FALSE(flow.next(0).has_value());
  flow.restart();
  EXPECT_TRUE(flow.next(0).has_value());
}

/// Replica 1 stands on a device that nobody drives: replica 0 may not take all batches.
TEST(StepFlowTest, RunsNoFurtherAheadThanThereAreBatches) {
  auto shape = flow_shape(PipelineSchedule::OneForwardOneBackward, 2, 1, 2, 100);
  shape.most_batches = 6;
  StepFlow flow(shape);
  int tasks = 0;
  while (const auto task = flow.peek(0)) {
    flow.done(*task);
    ++tasks;
  }
  // The oldest in use is 1, the first of the other; up to 6 they can be had: 0, 2, 4 and 6.
  EXPECT_EQ(tasks, 2 * 4);
}

}  // namespace
}  // namespace lockstep::plan
