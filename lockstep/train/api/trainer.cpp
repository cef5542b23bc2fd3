#include "lockstep/train/api/trainer.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/train/recovery/kept_history.h"

namespace lockstep {
namespace {

/// The entries of one call of `fit`.
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
  const bool is_first = options_.world().instance() == 0;
  if (is_first || callback->called_on() == Callback::CalledOn::EveryInstance) {
    callbacks_->push_back(std::move(callback));
  }
  return *this;
}

void Trainer::call(const std::function<void(Callback&)>& function) const {
  for (const auto& callback : *callbacks_) function(*callback);
}

TrainingModel& Trainer::model() {
  if (model_) return *model_;
  call([this](Callback& callback) { callback.prepare(options_); });
  model_ = make_(options_);
  const bool is_first = options_.world().instance() == 0;
  model_->tell([callbacks = callbacks_, is_first](const std::string& text) {
    bool is_shown = false;
    for (const auto& callback : *callbacks) is_shown |= callback->on_notice(text);
    if (!is_shown && is_first) log_warning(text);
  });
  model_->on_step(
      [callbacks = callbacks_, model = model_.get()](std::int64_t step, const StepResult& result) {
        for (const auto& callback : *callbacks) callback->on_step(step, result, *model);
      });
  return *model_;
}

History Trainer::fit(DataLoader& loader, const FitOptions& fit) {
  if (fit.epochs < 0) {
    throw Error(ErrorKind::Options,
                fmt::format("Trainer::fit: expected 0 epochs or more, found {}", fit.epochs));
  }
  try {
    auto history = run_fit(loader, fit);
    call([&](Callback& callback) { callback.on_fit_end(history, *model_); });
    return history;
  } catch (const Error& error) {
    call([&](Callback& callback) { callback.on_fit_failed(error); });
    throw;
  }
}

/// Makes and compiles the model, and reports each step.
void Trainer::compile(DataLoader& loader, const FitOptions& fit) {
  const int total = fit.preparations + 2;
  const auto report = [&](std::string what, int done) {
    call([&](Callback& callback) { callback.on_preparing({what, done, total}); });
  };
  const bool is_first_fit = fits_ == 0;
  if (is_first_fit) report("sharing the weights", total - 2);
  auto& model = this->model();
  if (is_first_fit) report("deciding the plan", total - 1);
  const auto compiled = model.compile(loader, [&](int done, int blocks) {
    report(fmt::format("measuring block {} of {}", done, blocks), total - 1);
  });
  if (!is_first_fit) return;
  call([&](Callback& callback) { callback.on_compiled(model); });
  report(compiled.is_cached ? "plan cached" : "plan made", total);
}

History Trainer::run_fit(DataLoader& loader, const FitOptions& fit) {
  compile(loader, fit);
  const auto& shape = loader.shape();
  shape_ = {.epochs = fit.epochs,
            .validations = fit.validation == nullptr ? 0 : 1,
            .validate_every = fit.validate_every,
            .iterations = loader.size(),
            .steps_per_iteration = shape.device_iterations,
            .samples_per_iteration = shape.device_iterations * shape.samples_per_step()};
  shape_.validations = shape_.validations_from(1);
  call([&](Callback& callback) { callback.on_fit_begin(shape_); });
  ++fits_;
  train::KeptHistory kept(options_.world().communicator(), fit.epochs, metrics_,
                          of_fit(model_->resumed_history(), fits_));
  History history;
  const auto validations_before = validations_;
  // An earlier run has finished the epochs that the loop leaves out.
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
  // There was nothing to train. The run that this job continues may have had another validation
  // set, or none. If a later call of `fit` has trained the weights already, they do not belong to
  // this call.
  const bool is_current = walked_ >= model_->steps();
  const bool has_validated = validations_ > validations_before || kept.is_of_this_job(fit.epochs);
  if (fit.validation == nullptr || !is_current || has_validated) return history;
  const auto validation = validate(fit.epochs, fit);
  if (fit.epochs == 0) return history;
  EpochResult last{fit.epochs, model_->epoch_so_far(), validation};
  if (!history.epochs.empty() && history.epochs.back().epoch == fit.epochs) {
    last.training = history.epochs.back().training;
    history.epochs.pop_back();
  }
  add(last, history);
  kept.put(last);
  return history;
}

void Trainer::add(const EpochResult& result, History& history) {
  history.epochs.push_back(result);
  model_->remember(train::entry_of(result, fits_));
}

bool Trainer::goes_on(const History& history) {
  bool all_agree = true;
  call([&](Callback& callback) { all_agree &= callback.goes_on(history); });
  return all_agree;
}

/// Returns nothing for an epoch of an earlier run whose result is unknown, because the checkpoint
/// was taken later.
std::optional<EpochResult> Trainer::run_epoch(int epoch, DataLoader& loader, const FitOptions& fit,
                                              const std::optional<EpochResult>& before) {
  const bool has_computed = train_epoch(epoch, loader);
  walked_ += loader.steps_per_epoch();
  if (!has_computed && before) return before;
  if (!has_computed && walked_ < model_->steps()) return std::nullopt;
  EpochResult result{.epoch = epoch, .training = model_->epoch_so_far()};
  call([&](Callback& callback) { callback.on_epoch_trained(epoch, result.training); });
  if (shape_.validates_after(epoch)) result.validation = validate(epoch, fit);
  return result;
}

/// Returns whether a step was left to compute.
bool Trainer::train_epoch(int epoch, DataLoader& loader) {
  const bool has_steps_left = model_->steps() < walked_ + loader.steps_per_epoch();
  if (has_steps_left) {
    call([&](Callback& callback) { callback.on_epoch_begin(epoch, loader.size()); });
  }
  bool has_computed = false;
  for (const auto& iteration : loader) {
    const auto result = model_->step(iteration);
    if (result.done_before) continue;
    has_computed = true;
    call([&](Callback& callback) { callback.on_iteration(epoch, iteration.number + 1, result); });
  }
  return has_computed;
}

StepResult Trainer::validate(int epoch, const FitOptions& fit) {
  auto& loader = *fit.validation;
  call([&](Callback& callback) { callback.on_validation_begin(epoch, loader.local_batches()); });
  auto result = model_->evaluate(loader, fit.validated_weights, [this](std::int64_t done) {
    call([&](Callback& callback) { callback.on_validation_batch(done); });
  });
  call([&](Callback& callback) { callback.on_validated(epoch, result); });
  ++validations_;
  return result;
}

}  // namespace lockstep
