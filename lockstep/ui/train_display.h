#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/export.h"
#include "lockstep/events/callback.h"
#include "lockstep/ui/progress_bar.h"

namespace lockstep::ui {

class RunForecast;

/// Shows a training: a bar for the preparation, for each epoch and for each evaluation, and the
/// result of each epoch and evaluation as a line that stays.
///
///     [Prepare]: 100%|██████████| 5/5 [00:02, plan cached]
///     [Epoch 01]: 100%|██████████| 24/24 [00:48<00:00,  2.03s/it, loss=1.45, acc=48.4]
///     [Epoch 01] loss: 1.835, acc: 32.3 (the run ends about 14:32, in 12 min)
///     [Test  01] loss: 0.412, acc: 85.7
///
/// The expected end of the run is shown if the run has several epochs and is expected to last a
/// minute or more (`RunForecast`). A bar that is not full shows it, too, as "run ends 14:32".
///
/// Notices go to standard error. With silent bars the lines are written, too.
class LOCKSTEP_API TrainDisplay final : public Callback {
 public:
  TrainDisplay(BarOutput out, Writer err);
  ~TrainDisplay() override;

  CalledOn called_on() const noexcept override { return CalledOn::FirstInstance; }
  void on_preparing(const events::Preparing& step) override;
  bool on_notice(const std::string& text) override;
  void on_fit_begin(const FitShape& shape) override { shape_ = shape; }
  void on_epoch_begin(int epoch, std::int64_t iterations) override;
  void on_iteration(int epoch, std::int64_t iteration, const IterationResult& result) override;
  void on_epoch_trained(int epoch, const StepResult& result) override;
  void on_validation_begin(int epoch, std::int64_t local_batches) override;
  void on_validation_batch(std::int64_t done) override;
  void on_validated(int epoch, const StepResult& result) override;

 private:
  enum class Phase { Prepare, Epoch, Test };

  void begin(Phase phase, std::string label, ProgressBar::Options options);
  bool shows(Phase phase) const { return bar_ && phase_ == phase; }
  void end_bar();
  void write_line(std::string_view line) { out_.write(std::string(line) + "\n"); }
  std::string postfix_of(std::int64_t iteration, const StepResult& result) const;
  std::string expected_end(int epoch) const;

  BarOutput out_;
  Writer err_;
  FitShape shape_;
  std::unique_ptr<RunForecast> forecast_;
  Phase phase_ = Phase::Prepare;
  bool is_prepared_ = false;
  std::optional<ProgressBar> bar_;
};

}  // namespace lockstep::ui
