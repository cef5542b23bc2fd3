#pragma once

#include <optional>
#include <string>

#include "lockstep/base/export.h"
#include "lockstep/events/train_events.h"
#include "lockstep/ui/progress_bar.h"

namespace lockstep::ui {

/// Shows a training: a bar while it prepares, one per epoch and one per evaluation, and what came
/// out of each as a line that stays.
///
///     [Prepare]: 100%|██████████| 5/5 [00:02, plan cached]
///     [Epoch 01]: 100%|██████████| 24/24 [00:48<00:00,  2.03s/it, loss=1.45, acc=48.4]
///     [Epoch 01] loss: 1.835, acc: 32.3
///     [Test  01] loss: 0.412, acc: 85.7
///
/// Notices go to standard error. With silent bars the lines are written all the same.
class LOCKSTEP_API TrainDisplay final : public events::TrainSink {
 public:
  TrainDisplay(BarOutput out, Writer err) : out_(std::move(out)), err_(std::move(err)) {}

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

  BarOutput out_;
  Writer err_;
  Phase phase_ = Phase::Prepare;
  bool is_prepared_ = false;
  std::optional<ProgressBar> bar_;
};

}  // namespace lockstep::ui
