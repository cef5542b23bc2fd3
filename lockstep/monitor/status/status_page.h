#pragma once

#include <memory>
#include <string>

#include "lockstep/monitor/status/instance_status.h"

namespace lockstep::monitor {

namespace page {
struct Page;
}

/// "status-3": what the page of an instance is called in the folder of its job.
std::string page_name(int instance);

/// The page on which one instance says what it does (`page_layout.h`). Only its writer has one.
///
/// One thread at a time may call `write`. The file is there as long as this is; a process that was
/// forked from the instance leaves it alone.
class StatusPage {
 public:
  /// Makes the file, in place of one that an instance of this number left. Throws `Io`.
  StatusPage(const std::string& folder, const InstanceFacts& facts);
  ~StatusPage();
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;

  void write(const InstanceState& state) noexcept;

  const std::string& path() const noexcept { return path_; }

 private:
  bool is_still_ours() const noexcept;

  std::string path_;
  int owner_;
  std::uint64_t inode_ = 0;
  page::Page* page_ = nullptr;
};

}  // namespace lockstep::monitor
