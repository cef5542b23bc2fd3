#include "lockstep/train/recovery/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/find_checkpoint.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using checkpoint::Resume;

/// Whether a checkpoint, or the newest of a folder, is one of `folder` itself.
bool is_within(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  const auto whole = fs::weakly_canonical(folder, ignored);
  const auto canonical = fs::weakly_canonical(path, ignored);
  return canonical == whole || canonical.parent_path() == whole;
}

}  // namespace

Recovery::Recovery(const Options& options)
    : options_(options),
      signals_(options.checkpoints() ? std::make_unique<StopSignals>() : nullptr) {}

void Recovery::begin(Recoverable& training, const JobLayout& layout, const Optimizer& optimizer,
                     const DataLoader* loader, Tell tell) {
  training_ = &training;
  const auto& world = options_.world();
  const bool is_first = world.instance() == 0;
  tell_ = std::move(tell);
  communicator_ = &world.communicator();
  to_match_ = matching_options(options_, layout, optimizer);
  if (loader != nullptr) {
    const auto more = matching_options(*loader);
    to_match_.insert(to_match_.end(), more.begin(), more.end());
    has_loader_ = true;
  }
  if (is_first) log_ = events::open_event_log(world.identity().events_file, log_warning);
  // A state in memory without a step has only the initial weights, so a checkpoint takes
  // precedence.
  if (!training.is_recovered() || training.progress().steps == 0) restore();
  if (loader != nullptr) training.guarded([&] { check_kept_loader(to_match_); });
  replay_.begin(training.progress(), training.finished_epochs(), options_.loop_position());
  if (replay_.first_step() > 0 && is_first) report_resume();
  if (!options_.checkpoints()) return;
  training.guarded([&] {
    if (!is_first) return;
    checkpointer_ = std::make_unique<Checkpointer>(
        *options_.checkpoints(), replay_.first_step(),
        Checkpointer::Listeners{.tell = [this](const std::string& text) { tell_(text); },
                                .log = &log_});
  });
}

/// A state in memory was trained with one loader, and continues only with the same one.
void Recovery::check_kept_loader(const NamedOptions& options) {
  const auto print = loader_print(options);
  if (training_->loader_print() == 0) return training_->keep_loader_print(print);
  if (training_->loader_print() == print) return;
  throw Error(ErrorKind::Options,
              "resume: the batch size, the samples or the order of the loader differ from the run "
              "that this run continues",
              "use the values of that run, or start a new run");
}

/// A restarted job continues with its own newest checkpoint, otherwise with the requested one.
std::optional<checkpoint::Checkpoint> Recovery::find() const {
  const auto on_damaged = [&](const fs::path& path, const std::string& why) {
    tell_(fmt::format("{} is damaged, so an older checkpoint is used: {}", path.string(), why));
  };
  const auto& world = options_.world();
  const auto folder = options_.checkpoints() ? options_.checkpoints()->folder : fs::path();
  if (world.restart_count() > 0 && !folder.empty()) {
    auto found = checkpoint::find_checkpoint_of_job(world.job_id(), folder, on_damaged);
    if (found) return found;
  }
  const auto& resume = options_.resume_from();
  const bool is_elsewhere = resume.from == Resume::From::Nothing ||
                            (resume.from == Resume::From::Path && !is_within(resume.path, folder));
  if (!folder.empty() && is_elsewhere) checkpoint::check_is_unused("checkpoints", folder);
  if (folder.empty() && resume.from != Resume::From::Path && resume.from != Resume::From::Nothing) {
    throw Error(ErrorKind::Options, "resume: expected a folder of checkpoints, found none",
                "Options::checkpoints, or --checkpoint-dir");
  }
  return checkpoint::find_checkpoint(resume, folder, on_damaged);
}

void Recovery::restore() {
  std::optional<checkpoint::Checkpoint> found;
  training_->guarded([&] {
    if (communicator_->rank() != 0) return;
    found = find();
    if (!found) return;
    check_matches(found->manifest(), found->path().string(), to_match_,
                  has_loader_ ? Compared::All : Compared::AllButLoader);
  });
  std::int64_t is_found = found ? 1 : 0;
  communicator_->broadcast({&is_found, 1, DataType::I64, "resume"}, 0);
  if (is_found == 0) return;
  training_->restore(found ? &*found : nullptr);
  if (found) {
    resumed_ = found->manifest();
    checkpoint_path_ = found->path();
  }
  share_path();
}

/// A program may ask for the path on any instance.
void Recovery::share_path() {
  auto text = checkpoint_path_.string();
  auto size = static_cast<std::int64_t>(text.size());
  communicator_->broadcast({&size, 1, DataType::I64, "resume"}, 0);
  text.resize(static_cast<std::size_t>(size));
  communicator_->broadcast({text.data(), size, DataType::U8, "resume"}, 0);
  checkpoint_path_ = text;
}

void Recovery::report_resume() const {
  const auto& progress = training_->progress();
  const auto from = checkpoint_path_.empty() ? "the launcher's memory" : checkpoint_path_.string();
  tell_(fmt::format("continues after step {} (epoch {}), from {}", progress.steps,
                    progress.epoch + 1, from));
  log_.write({.event = "resume",
              .instance = 0,
              .step = progress.steps,
              .more = {{"from", checkpoint_path_.empty() ? std::string("memory") : from}}});
}

void Recovery::take_loader(const DataLoader& loader) {
  if (std::exchange(has_loader_, true)) return;
  const auto known = matching_options(loader);
  training_->guarded([&] {
    if (resumed_) {
      check_matches(*resumed_, checkpoint_path_.string(), known, Compared::LoaderAlone);
    }
    check_kept_loader(known);
  });
  to_match_.insert(to_match_.end(), known.begin(), known.end());
}

void Recovery::finish_epoch(int epoch) {
  if (replay_.loop() != 1) return;
  training_->finish_epoch(epoch);
  if (!is_writer()) return;
  checkpointer_->after_epoch(moment(), [&] { return training_->begin_copy(); });
}

void Recovery::pass_on_requests() {
  if (!signals_) return;
  if (signals_->wants_stop()) training_->request(Request::Stop);
  if (signals_->take_checkpoint_request()) training_->request(Request::Checkpoint);
}

StepPosition Recovery::before_step(const DataLoader::Iteration& iteration, std::int64_t step) {
  pass_on_requests();
  return {.epoch = iteration.epoch,
          .begins_epoch = iteration.number == 0 && step == 0,
          .loop = replay_.loop(),
          .loop_epoch = replay_.epoch(),
          .loader = iteration.loader->number(),
          .samples = iteration.loader->shape().samples_per_step()};
}

Moment Recovery::moment() const {
  const auto& progress = training_->progress();
  return {.position = {.step = progress.steps,
                       .epoch = progress.epoch + 1,
                       .epoch_step = progress.epoch_steps,
                       .finished_epochs = training_->finished_epochs()},
          .options = to_match_,
          .history = history_,
          .job = options_.world().job_id()};
}

/// Outside of the program's first loop over epochs, an epoch ends with its last step.
void Recovery::after_step(const DataLoader& loader) {
  const auto& progress = training_->progress();
  if (progress.is_stopped != 0) stop();
  pass_on_requests();
  if (!is_writer()) return;
  if (training_->take_checkpoint_request()) {
    checkpointer_->take_asked(moment(), training_->begin_copy());
  } else if (checkpointer_->is_due(progress.steps)) {
    checkpointer_->take_due(moment(), training_->begin_copy());
  }
  const bool ends_epoch = progress.epoch_steps == loader.steps_per_epoch();
  if (replay_.loop() == 1 || !ends_epoch) return;
  auto now = moment();
  now.position.finished_epochs = progress.epoch + 1;
  checkpointer_->after_epoch(now, [&] { return training_->begin_copy(); });
}

void Recovery::stop() {
  const auto step = training_->progress().steps;
  const bool is_written = take_checkpoint("stopped");
  signals_->forget_stop();
  if (!is_written) {
    throw Error(ErrorKind::Io,
                fmt::format("train: stopped by SIGTERM after step {}, but the checkpoint "
                            "could not be written",
                            step));
  }
  throw Error(ErrorKind::Stopped,
              fmt::format("train: stopped by SIGTERM after step {}; wrote a checkpoint", step),
              "continue with the same command and --resume");
}

void Recovery::during_evaluation() {
  if (!is_writer() || !signals_->wants_stop() || std::exchange(has_answered_stop_, true)) return;
  checkpointer_->take_asked(moment(), training_->begin_copy());
}

void Recovery::after_evaluation(double loss, const std::vector<events::NamedValue>& metrics) {
  if (!is_writer()) return;
  std::map<std::string, double> values{{"loss", loss}};
  for (const auto& [name, value] : metrics) values.emplace(name, value);
  checkpointer_->after_evaluation(training_->progress().steps, values);
}

/// A resumed run repeats the epochs that it already has, so an entry may exist.
void Recovery::remember(const checkpoint::EpochEntry& entry) {
  if (!is_writer()) return;
  const auto same = std::ranges::find_if(history_, [&](const auto& known) {
    return known.fit == entry.fit && known.epoch == entry.epoch;
  });
  if (same == history_.end()) {
    history_.push_back(entry);
  } else {
    *same = entry;
  }
}

bool Recovery::take_checkpoint(const std::string& reason) {
  if (!options_.checkpoints()) {
    throw Error(ErrorKind::Options, "TrainingModel::checkpoint: no folder for checkpoints is set",
                R"(Options().checkpoints({.folder = "checkpoints"}))");
  }
  std::int64_t is_written = 1;
  if (is_writer()) {
    const auto copy = [&] { return training_->begin_copy(); };
    is_written = checkpointer_->take_last(moment(), reason, copy) ? 1 : 0;
  }
  communicator_->broadcast({&is_written, 1, DataType::I64, "checkpoint"}, 0);
  return is_written == 1;
}

CheckpointCost Recovery::checkpoint_cost() const noexcept {
  if (!is_writer()) return {};
  auto cost = checkpointer_->cost();
  cost.blocked_seconds += training_->waited_for_copies();
  return cost;
}

}  // namespace lockstep::train
