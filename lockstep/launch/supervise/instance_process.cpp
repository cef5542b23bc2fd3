#include "lockstep/launch/supervise/instance_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::launch {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{64} * 1024;
constexpr int kBlocksPerTurn = 4;

}  // namespace

void Tail::add(std::string_view text) {
  // Of a long text only the end can matter: lines before the last ones are skipped unseen.
  std::size_t begin = text.size();
  for (std::size_t lines = 0; begin > 0 && lines <= most_lines_; ++lines) {
    const auto feed = text.rfind('\n', begin - 1);
    begin = feed == std::string_view::npos ? 0 : feed;
  }
  if (begin > 0) {
    unfinished_.clear();
    text.remove_prefix(begin + 1);
  }
  for (auto feed = text.find('\n'); feed != std::string_view::npos; feed = text.find('\n')) {
    unfinished_ += text.substr(0, std::min(feed, kLineBytes + 1));
    lines_.push_back(std::exchange(unfinished_, {}));
    text.remove_prefix(feed + 1);
  }
  if (unfinished_.size() <= kLineBytes) unfinished_ += text.substr(0, kLineBytes + 1);
  while (lines_.size() > most_lines_) lines_.pop_front();
}

std::vector<std::string> Tail::lines() const {
  std::vector<std::string> lines(lines_.begin(), lines_.end());
  if (!unfinished_.empty()) lines.push_back(unfinished_);
  if (lines.size() > most_lines_) lines.erase(lines.begin());
  for (auto& line : lines) {
    if (line.size() > kLineBytes) line.replace(kLineBytes, std::string::npos, "…");
  }
  return lines;
}

OutputStream::OutputStream(int instance, events::Stream stream, Mode mode, UniqueFd pipe,
                           UniqueFd log)
    : instance_(instance),
      stream_(stream),
      mode_(mode),
      pipe_(std::move(pipe)),
      log_(std::move(log)) {}

bool OutputStream::forward(events::JobSink& sink) {
  static thread_local std::array<char, kBlockBytes> block;
  for (int i = 0; i < kBlocksPerTurn && pipe_; ++i) {
    const auto count = ::read(pipe_.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count <= 0) {
      finish(sink);
      return false;
    }
    const std::string_view bytes(block.data(), static_cast<std::size_t>(count));
    write_log(sink, bytes);
    pass_on(sink, mode_ == Mode::Raw ? LineBuffer::Text{bytes, {}} : lines_.add(bytes));
  }
  return static_cast<bool>(pipe_);
}

void OutputStream::finish_line(events::JobSink& sink) {
  pass_on(sink, lines_.finish());
}

void OutputStream::finish(events::JobSink& sink) {
  pipe_.reset();
  finish_line(sink);
}

void OutputStream::pass_on(events::JobSink& sink, const LineBuffer::Text& text) {
  if (stream_ == events::Stream::Stderr) tail_.add(text.lines);
  if (text.lines.empty() && text.progress.empty()) return;
  sink.on(events::InstanceOutput{instance_, stream_, text.lines, text.progress});
}

void OutputStream::write_log(events::JobSink& sink, std::string_view bytes) {
  while (log_ && !bytes.empty()) {
    const auto count = ::write(log_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      sink.on(events::Warning{fmt::format("--log-dir: instance {}: {}; its file ends here",
                                          instance_, std::strerror(errno))});
      log_.reset();
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace lockstep::launch
