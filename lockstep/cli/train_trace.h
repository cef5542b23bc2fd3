#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/world.h"
#include "lockstep/monitor/export/span_recorder.h"
#include "lockstep/topology/identity.h"

namespace lockstep::cli {

/// What `--trace` asks for: each instance records what its threads do, and instance 0 puts all of
/// it together in the end.
///
/// Records lie in the job's folder, so what attempts that failed have recorded on this host is
/// still there when the job has gone on. Between hosts, and where no launcher of ours has made a
/// folder for all, they are handed to instance 0.
class TrainTrace {
 public:
  /// `folder` is that of the job, or this process's own where it has none. Errors: `Io`.
  TrainTrace(std::string file, std::string folder, const topology::Identity& identity);

  events::SpanTracks& tracks() noexcept { return recorder_; }

  /// Every instance calls it, when it records no more. Errors: `Io`, and those of collectives.
  void write(const World& world) const;
  /// For one that cannot ask the others any more: writes what this host has, if it is instance 0.
  void write_what_is_here() const;

 private:
  std::vector<monitor::InstanceSpans> local_spans(bool is_leader) const;

  std::string file_;
  std::string folder_;
  std::string own_;  ///< the record of this instance
  topology::Identity identity_;
  bool is_shared_;  ///< the folder is that of all instances of this host
  monitor::SpanRecorder recorder_;
};

}  // namespace lockstep::cli
