#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/comm/shared_memory.h"

namespace lockstep::comm::host {

/// Memory of a host that outlives the instances of a job: the launcher makes it and hands it to
/// each attempt, so that what one attempt had committed the next one finds.
///
/// It consists of pieces. A program asks for them in the same order in each of its attempts: the
/// first that it asks for is the first that is there, and so on. A piece that does not fit what is
/// asked for, and all after it, are given up, and new ones made.
///
/// What is in a piece is its owner's: it has to be whole whenever the owner may die. Only one
/// attempt uses the memory at a time, and in it one thread at a time asks for pieces.
class KeptMemory {
 public:
  /// Errors: `Io`.
  static KeptMemory create(std::string_view job_id);
  /// As a process that was started with it finds it.
  /// Errors: `Unavailable` where it is not such memory, or of another job or another lockstep.
  static KeptMemory open(int fd, std::string_view job_id);

  int file() const noexcept { return file_.get(); }

  /// Nobody of the attempt before is left, and the next one will ask for pieces from the first on.
  void begin_attempt() noexcept;

  struct Piece {
    std::uint64_t offset;
    bool is_new;  ///< and zeroed
  };
  /// The next piece; nothing where there are too many of them to keep one more.
  /// Errors: `Unavailable` where the machine has not so much memory.
  std::optional<Piece> next(std::string_view name, std::uint64_t fingerprint, std::size_t bytes);

  SharedMemory map(std::uint64_t offset, std::size_t bytes) const;

  /// How many pieces there are: whether anything is kept.
  int num_pieces() const noexcept;

  /// The last optimizer step that was committed, for those who report; -1 before the first.
  std::int64_t step() const noexcept;
  void note_step(std::int64_t step) noexcept;

  /// The instance that the others gave up because it was late; -1: none was. Those who gave it up
  /// fail, and the launcher has to know who was the cause.
  int given_up() const noexcept;
  void note_given_up(int instance) noexcept;

 private:
  struct Header;
  explicit KeptMemory(UniqueFd file);
  Header& header() const noexcept;

  UniqueFd file_;
  SharedMemory header_;
};

}  // namespace lockstep::comm::host
