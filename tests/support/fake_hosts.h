#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {

/// Hosts x1, x2 and x3, which are all this machine: an `ssh` that runs its command here, and lets
/// it think that it was reached at an address of its own.
class FakeHosts {
 public:
  FakeHosts();

  /// `lockstep run --launcher ssh` with these hosts, options and words.
  static std::vector<std::string> run_command(const std::string& hosts,
                                              std::vector<std::string> options,
                                              const std::vector<std::string>& program);

  /// What a launcher has to be started with to find them. All processes of the job inherit a mark.
  SubprocessOptions options() const;

  /// Runs `lockstep` with these arguments to its end, and expects that nothing is left.
  Finished lockstep(const std::vector<std::string>& arguments) const;

  /// The processes of the job.
  std::vector<pid_t> processes() const;
  /// Those of them that are the agent of a host, the one that was started first in front.
  std::vector<pid_t> agents(const std::string& host) const;
  bool wait_until_gone(std::chrono::duration<double> deadline) const;

  /// Replaces what runs on a host in place of its agent by a script.
  void replace_agent(const std::string& host, const std::string& script) const;
  /// Where the launcher, which is on this machine, does not find what is in it by itself.
  void give_own_folder(const std::string& host) const;
  /// A file in this folder makes a host unreachable.
  void unplug(const std::string& host) const;
  void plug_in(const std::string& host) const;

  const ScratchFolder& folder() const { return folder_; }

 private:
  ScratchFolder folder_;
  std::string mark_;
};

}  // namespace lockstep::testing
