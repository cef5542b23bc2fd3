#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/nn/model.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/planner/job_layout.h"

namespace lockstep::train {

/// The parts of a training, with every option decided.
struct EngineSetup {
  Options options;
  JobLayout layout;
  std::unique_ptr<nn::Model> model;
  Optimizer optimizer;
  Task task;
  std::function<void(const std::string&)> tell;  ///< receives warnings for the user

  DataType leaf_type() const { return gradient_type(options.precision(), options.half()); }
  bool has_loss_scaling() const { return leaf_type() == DataType::F16; }
};

}  // namespace lockstep::train
