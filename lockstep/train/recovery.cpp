#include "lockstep/train/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/train/matching_options.h"

namespace lockstep::train {

void Recovery::begin(Engine& engine, const Options& options, const Optimizer& optimizer,
                     Tell tell) {
  const auto& world = options.world();
  tell_ = std::move(tell);
  communicator_ = &world.communicator();
  position_ = options.loop_position();
  steps_per_iteration_ = options.device_iterations();
  options_ = matching_options(options, engine.layout(), optimizer);
  if (world.instance() == 0 && world.identity().events_file) {
    log_ = events::EventLog(*world.identity().events_file);
  }
  // Before its first step a state is no more than what a program, or a checkpoint, began with.
  if (!engine.is_recovered() || engine.progress().steps == 0) restore(engine, options);
  first_step_ = engine.progress().steps;
  if (first_step_ > 0 && world.instance() == 0) tell_of_resume(engine);
  if (!options.checkpoints()) return;
  signals_ = StopSignals::install();
  engine.guarded([&] {
    if (world.instance() != 0) return;
    checkpointer_ = std::make_unique<Checkpointer>(
        *options.checkpoints(), first_step_,
        Checkpointer::Listeners{.tell = [this](const std::string& text) { tell_(text); },
                                .log = &log_});
  });
}

/// After a restart the newest checkpoint of this very job counts, whatever it began with.
std::optional<checkpoint::Checkpoint> Recovery::find(const Options& options) const {
  using checkpoint::Resume;
  const auto on_damaged = [&](const std::filesystem::path& path, const std::string& why) {
    tell_(fmt::format("{} is damaged, and the one before it is looked at: {}", path.string(), why));
  };
  const auto folder =
      options.checkpoints() ? options.checkpoints()->folder : std::filesystem::path();
  const bool is_restarted = options.world().restart_count() > 0;
  if (is_restarted && !folder.empty()) {
    if (auto found = checkpoint::find_checkpoint({Resume::From::NewestIfAny}, folder, on_damaged))
      return found;
  }
  const auto& resume = options.resume_from();
  if (resume.from == Resume::From::Nothing) {
    if (!folder.empty() && !is_restarted) checkpoint::check_is_unused("checkpoints", folder);
    return std::nullopt;
  }
  if (folder.empty() && resume.from != Resume::From::Path) {
    throw Error(ErrorKind::Options, "resume: expected a folder of checkpoints, found none",
                "Options::checkpoints, or --checkpoint-dir");
  }
  return checkpoint::find_checkpoint(resume, folder, on_damaged);
}

void Recovery::restore(Engine& engine, const Options& options) {
  std::optional<checkpoint::Checkpoint> found;
  engine.guarded([&] {
    if (communicator_->rank() != 0) return;
    found = find(options);
    if (found) check_matches(found->manifest(), found->path().string(), options_);
  });
  std::int64_t is_found = found ? 1 : 0;
  communicator_->broadcast({&is_found, 1, DataType::I64, "resume"}, 0);
  if (is_found == 0) return;
  engine.restore(found ? &*found : nullptr);
  if (!found) return;
  resumed_ = found->manifest();
  checkpoint_path_ = found->path();
}

void Recovery::tell_of_resume(const Engine& engine) const {
  const auto& progress = engine.progress();
  const auto from =
      checkpoint_path_.empty() ? "the memory of the launcher" : checkpoint_path_.string();
  tell_(fmt::format("goes on after step {} (epoch {}), from {}", progress.steps, progress.epoch + 1,
                    from));
  log_.write({.event = "resume",
              .instance = 0,
              .step = progress.steps,
              .more = {{"from", checkpoint_path_.empty() ? std::string("memory") : from}}});
}

void Recovery::check_loader(Engine& engine, const DataLoader& loader) {
  const auto known = matching_options(loader);
  engine.guarded([&] {
    if (resumed_) check_matches(*resumed_, checkpoint_path_.string(), known);
  });
  options_.insert(options_.end(), known.begin(), known.end());
}

/// Where the loop is not the program's first, or samples came from several loaders, nobody knows
/// which of them stood where: then steps are walked past one by one.
int Recovery::begin_loop(const Engine& engine, int count) {
  const auto& progress = engine.progress();
  const bool goes_on = ++loop_ == 1 && first_step_ > 0 && walked_ == 0 && !engine.awaits_load() &&
                       progress.loop == 1 && progress.loader != kSeveralLoaders;
  epoch_ = 1;
  if (!goes_on) return epoch_;
  const auto finished = static_cast<int>(engine.finished_epochs());
  const bool is_finished = finished >= progress.loop_epoch;
  const auto steps = is_finished ? 0 : progress.epoch_steps;
  walked_ = first_step_ - steps % steps_per_iteration_;
  position_->go_to({.loader = progress.loader,
                    .epoch = progress.epoch + (is_finished ? 1 : 0),
                    .iteration = steps / steps_per_iteration_});
  epoch_ = static_cast<int>(progress.loop_epoch) + (is_finished ? 1 : 0);
  return std::min(epoch_, count + 1);
}

void Recovery::finish_epoch(Engine& engine, int epoch) {
  if (loop_ != 1) return;
  engine.finish_epoch(epoch);
  if (is_writer()) {
    checkpointer_->after_epoch(moment(engine), [&](Snapshot& to) { return engine.copy_state(to); });
  }
}

std::int64_t Recovery::walk(const Engine& engine, std::int64_t steps) {
  if (engine.awaits_load()) return steps;
  const auto done = std::clamp<std::int64_t>(first_step_ - walked_, 0, steps);
  walked_ += steps;
  return done;
}

void Recovery::before_step(Engine& engine) {
  if (signals_ && signals_->wants_stop()) engine.request_stop();
}

StepPlace Recovery::place_of(const DataLoader::Iteration& iteration, bool begins) const {
  return {.epoch = iteration.epoch,
          .begins_epoch = iteration.number == 0 && begins,
          .loop = loop_,
          .loop_epoch = epoch_};
}

Moment Recovery::moment(const Engine& engine) const {
  const auto& progress = engine.progress();
  return {.position = {.step = progress.steps,
                       .epoch = progress.epoch + 1,
                       .epoch_step = progress.epoch_steps,
                       .finished_epochs = engine.finished_epochs()},
          .options = options_};
}

void Recovery::after_step(Engine& engine) {
  if (engine.progress().is_stopped != 0) stop(engine);
  if (!is_writer()) return;
  checkpointer_->after_step(moment(engine), signals_->take_checkpoint_request(),
                            [&](Snapshot& to) { return engine.copy_state(to); });
}

void Recovery::stop(Engine& engine) {
  take_checkpoint(engine, "stopped");
  const auto step = engine.progress().steps;
  throw Error(
      ErrorKind::Stopped,
      fmt::format("train: stopped after step {} as SIGTERM asked; a checkpoint was taken", step),
      "the same command with --resume goes on from it");
}

void Recovery::during_evaluation(const Engine& engine) {
  if (!is_writer() || !signals_->wants_stop() || std::exchange(has_answered_stop_, true)) return;
  checkpointer_->after_step(moment(engine), /*is_asked=*/true,
                            [&](Snapshot& to) { return engine.copy_state(to); });
}

void Recovery::after_evaluation(const Engine& engine, double loss,
                                const std::vector<events::NamedValue>& metrics) {
  if (!is_writer()) return;
  std::map<std::string, double> values{{"loss", loss}};
  for (const auto& [name, value] : metrics) values.emplace(name, value);
  checkpointer_->after_evaluation(engine.progress().steps, values);
}

void Recovery::take_checkpoint(Engine& engine, const std::string& reason) {
  if (!signals_) {
    throw Error(ErrorKind::Options, "TrainingModel::checkpoint: no folder for checkpoints is set",
                R"(Options().checkpoints({.folder = "checkpoints"}))");
  }
  engine.guarded([&] {
    if (is_writer()) {
      checkpointer_->take_last(moment(engine), reason,
                               [&](Snapshot& to) { return engine.copy_state(to); });
    }
  });
  communicator_->barrier("checkpoint");
}

CheckpointCost Recovery::checkpoint_cost() const noexcept {
  return is_writer() ? checkpointer_->cost() : CheckpointCost{};
}

}  // namespace lockstep::train
