#include "lockstep/train/trainer.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/train/kept_history.h"

namespace lockstep {
namespace {

/// Those that a checkpoint has of one call of `fit`.
std::vector<checkpoint::EpochEntry> of_fit(std::vector<checkpoint::EpochEntry> entries, int fit) {
  std::erase_if(entries, [&](const auto& entry) { return entry.fit != fit; });
  return entries;
}

}  // namespace

Trainer& Trainer::add(CallbackPtr callback) {
  if (callback == nullptr) {
    throw Error(ErrorKind::Options, "Trainer::add: expected a callback, found a null pointer");
  }
  if (model_) {
    throw Error(ErrorKind::Options,
                "Trainer::add: expected callbacks before the model is made, found one after it",
                "add all callbacks before the first fit, evaluate, predict or model");
  }
  callbacks_.push_back(std::move(callback));
  return *this;
}

void Trainer::tell(const std::function<void(Callback&)>& of) {
  for (const auto& callback : callbacks_) of(*callback);
}

TrainingModel& Trainer::model() {
  if (!model_) {
    tell([this](Callback& callback) { callback.prepare(options_); });
    model_ = make_(options_);
  }
  return *model_;
}

StepResult Trainer::evaluate(EvaluationLoader& loader, WeightsKind kind) {
  return model().evaluate(loader, kind);
}

at::Tensor Trainer::predict(const at::Tensor& input, WeightsKind kind) {
  return model().predict(input, kind);
}

History Trainer::fit(DataLoader& loader, const FitOptions& fit) {
  if (fit.epochs < 0) {
    throw Error(ErrorKind::Options,
                fmt::format("Trainer::fit: expected 0 epochs or more, found {}", fit.epochs));
  }
  try {
    auto history = run_fit(loader, fit);
    tell([&](Callback& callback) { callback.on_fit_end(history, *model_); });
    return history;
  } catch (const Error& error) {
    tell([&](Callback& callback) { callback.on_fit_failed(error); });
    throw;
  }
}

History Trainer::run_fit(DataLoader& loader, const FitOptions& fit) {
  model().compile(loader);
  const auto& shape = loader.shape();
  tell([&](Callback& callback) {
    callback.on_fit_begin(
        {.epochs = fit.epochs,
         .validations = fit.validation == nullptr ? 0 : fit.epochs,
         .iterations = loader.size(),
         .steps_per_iteration = shape.device_iterations,
         .samples_per_iteration = shape.device_iterations * shape.samples_per_step()});
  });
  ++fits_;
  train::KeptHistory kept(options_.world().communicator(), fit.epochs, metrics_,
                          of_fit(model_->resumed_history(), fits_));
  History history;
  // What the loop leaves out, an earlier attempt of the job, or another job, has finished.
  auto recall_until = [&, next = 1](int end) mutable {
    walked_ += (end - next) * loader.steps_per_epoch();
    for (; next < end; ++next) {
      if (const auto known = kept.find(next)) add(*known, history);
    }
    ++next;
  };
  for (const int epoch : model().epochs(fit.epochs)) {
    recall_until(epoch);
    const auto result = run_epoch(epoch, loader, fit, kept.find(epoch));
    if (!result) continue;
    add(*result, history);
    kept.put(*result);
    if (goes_on(history)) continue;
    history.stopped_early = epoch < fit.epochs;
    return history;
  }
  recall_until(fit.epochs + 1);
  return history;
}

void Trainer::add(const EpochResult& result, History& history) {
  history.epochs.push_back(result);
  model_->remember(train::entry_of(result, fits_));
}

bool Trainer::goes_on(const History& history) {
  bool all_agree = true;
  tell([&](Callback& callback) { all_agree &= callback.goes_on(history); });
  return all_agree;
}

/// Nothing comes back for an epoch of which nobody knows any more what it came to: an earlier run
/// made it, and its checkpoint was taken later.
std::optional<EpochResult> Trainer::run_epoch(int epoch, DataLoader& loader, const FitOptions& fit,
                                              const std::optional<EpochResult>& before) {
  const bool has_computed = train_epoch(epoch, loader);
  walked_ += loader.steps_per_epoch();
  if (!has_computed && before) return before;
  if (!has_computed && walked_ < model_->steps()) return std::nullopt;
  EpochResult result{.epoch = epoch, .training = model_->epoch_so_far()};
  tell([&](Callback& callback) { callback.on_epoch_trained(epoch, result.training); });
  if (fit.validation != nullptr) result.validation = validate(epoch, *fit.validation);
  return result;
}

/// Returns whether there was anything left to do.
bool Trainer::train_epoch(int epoch, DataLoader& loader) {
  const bool has_steps_left = model_->steps() < walked_ + loader.steps_per_epoch();
  if (has_steps_left) {
    tell([&](Callback& callback) { callback.on_epoch_begin(epoch, loader.size()); });
  }
  bool has_computed = false;
  for (const auto& iteration : loader) {
    const auto result = model_->step(iteration);
    if (result.done_before) continue;
    has_computed = true;
    tell([&](Callback& callback) { callback.on_iteration(epoch, iteration.number + 1, result); });
  }
  return has_computed;
}

StepResult Trainer::validate(int epoch, EvaluationLoader& loader) {
  tell([&](Callback& callback) { callback.on_validation_begin(epoch, loader.local_batches()); });
  auto result = model_->evaluate(loader, WeightsKind::Trained, [this](std::int64_t done) {
    tell([&](Callback& callback) { callback.on_validation_batch(done); });
  });
  tell([&](Callback& callback) { callback.on_validated(epoch, result); });
  return result;
}

}  // namespace lockstep
