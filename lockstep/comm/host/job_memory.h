#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/comm/host/job_header.h"
#include "lockstep/comm/shared_memory.h"

namespace lockstep::comm::host {

inline constexpr std::size_t kPage = 4096;

/// 0, 1, …
std::vector<int> all_instances(int count);

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

/// Makes pages of a file present.
/// Errors: `Unavailable` where the machine has not so much; the kernel would end a process later.
void provide_pages(int file, std::uint64_t offset, std::size_t bytes);

/// The memory that the instances of a job share on one host: a file without a name, which ends with
/// the last process that has it open, however that ends. Any thread may call a member.
class JobMemory {
 public:
  /// What a job's memory on one host is made for.
  struct Shape {
    int num_instances = 1;
    int num_local_instances = 1;  ///< of them on this host
    std::string host{};           ///< as messages name it; empty: as the machine names itself
  };
  /// Errors: `Unavailable` for more instances than there is room for.
  static std::shared_ptr<JobMemory> create(const Shape& shape);
  explicit JobMemory(UniqueFd file);

  int file() const noexcept { return file_.get(); }
  JobHeader& header() const noexcept { return *header_; }

  /// Says which process an instance is, so that the others can see whether it lives.
  void introduce(int instance, int process) noexcept;
  /// The instances that were introduced, ascending.
  std::vector<int> introduced() const;

  /// Makes room, zeroed, and returns its offset.
  /// Errors: `Unavailable` where the machine has not so much; the kernel would end a process later.
  std::uint64_t reserve(std::size_t bytes);

  /// Pieces that begin at the same offset are mapped once, so threads see them at one address.
  SharedMemory map(std::uint64_t offset, std::size_t bytes);

 private:
  UniqueFd file_;
  SharedMemory header_memory_;
  JobHeader* header_;
  std::mutex mutex_;
  std::map<std::uint64_t, SharedMemory> mapped_;
};

}  // namespace lockstep::comm::host
