#pragma once

#include <vector>

#include "lockstep/events/callback.h"
#include "lockstep/events/watchers.h"
#include "lockstep/train/jobs/train_request.h"
#include "lockstep/train/jobs/train_summary.h"

namespace lockstep::train {

/// The requested device, otherwise a GPU if there is one.
DeviceKind device_of(const TrainRequest& request);

/// Trains a network of the zoo or of a file on an image dataset, as one instance of the job that
/// the environment describes. Implements `lockstep train` with a `Trainer`. This header needs no
/// torch.
///
/// Instance 0 calls the callbacks; they must outlive the call. `watchers` observe each instance.
/// Every instance returns the summary.
///
/// Errors: those of the dataset, the model and the training.
TrainSummary run_training(const TrainRequest& request, const std::vector<Callback*>& callbacks,
                          const events::Watchers& watchers = {});

}  // namespace lockstep::train
