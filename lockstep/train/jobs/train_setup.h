#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/nn/model.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/jobs/train_request.h"

// Makes the parts of a training from a request of `lockstep train`.

namespace lockstep::train {

Options options_of(const TrainRequest& request);

/// The test set for a training set. A pack has one split; its test split is the pack beside it, if
/// there is one.
std::optional<std::string> test_set_name(const std::string& dataset);

DataLoader train_loader(const TrainRequest& request, const Options& options,
                        const data::DatasetPtr& set);
EvaluationLoader test_loader(const TrainRequest& request, const Options& options,
                             const data::DatasetPtr& set);

/// The model for the images and classes of a set.
///
/// Errors: those of `nn::open_model`; `Options` if the model does not fit the set.
std::unique_ptr<nn::Model> open_model(const TrainRequest& request, const data::Dataset& set);

Task task_of(const TrainRequest& request);

}  // namespace lockstep::train
