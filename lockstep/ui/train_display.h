#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/export.h"
#include "lockstep/events/train_events.h"
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
class LOCKSTEP_API TrainDisplay final : public events::TrainSink {
 public:
  TrainDisplay(BarOutput out, Writer err);
  ~TrainDisplay() override;

  void on(const events::Preparing& event) override;
  void on(const events::EpochBegan& event) override;
  void on(const events::IterationDone& event) override;
  void on(const events::EpochDone& event) override;
  void on(const events::EvaluationBegan& event) override;
  void on(const events::EvaluationAdvanced& event) override;
  void on(const events::EvaluationDone& event) override;
  void on(const events::Notice& event) override;

 private:
  enum class Phase { Prepare, Epoch, Test };

  void begin(Phase phase, std::string label, ProgressBar::Options options);
  bool shows(Phase phase) const { return bar_ && phase_ == phase; }
  void end_bar();
  void write_line(std::string_view line) { out_.write(std::string(line) + "\n"); }
  std::string postfix_of(const events::IterationDone& event) const;
  std::string expected_end(std::int64_t epoch) const;

  BarOutput out_;
  Writer err_;
  std::unique_ptr<RunForecast> forecast_;
  Phase phase_ = Phase::Prepare;
  bool is_prepared_ = false;
  std::optional<ProgressBar> bar_;
};

}  // namespace lockstep::ui
