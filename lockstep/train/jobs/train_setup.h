#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/nn/model.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/jobs/train_request.h"

// What a request of `lockstep train` comes to, part by part.

namespace lockstep::train {

Options options_of(const TrainRequest& request);

/// A pack is one split; the other one stands beside it, if it is anywhere.
std::optional<std::string> test_set_name(const std::string& dataset);

DataLoader train_loader(const TrainRequest& request, const Options& options,
                        const data::DatasetPtr& set);
EvaluationLoader test_loader(const TrainRequest& request, const Options& options,
                             const data::DatasetPtr& set);

/// The model for the pictures and classes of a set.
///
/// Errors: those of `nn::open_model`; `Options` where it does not fit the set.
std::unique_ptr<nn::Model> open_model(const TrainRequest& request, const data::Dataset& set);

Task task_of(const TrainRequest& request);

}  // namespace lockstep::train
