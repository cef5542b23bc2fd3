#include "tests/support/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/process_facts.h"

namespace lockstep::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::duration<double> to_duration(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

/// A file without a name that holds the child's input.
UniqueFd make_input(const std::string& text) {
  UniqueFd file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), text.data(), text.size()) < 0) throw io_error("test input");
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

Pipe make_terminal() {
  int outside = -1;
  int inside = -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 60;
  if (::openpty(&outside, &inside, nullptr, nullptr, &size) != 0) throw io_error("openpty");
  ::fcntl(outside, F_SETFD, FD_CLOEXEC);
  return {UniqueFd(outside), UniqueFd(inside)};
}

/// Appends what there is. Returns false at the end of the stream.
bool drain(UniqueFd& fd, std::string& into) {
  std::array<char, 65536> block;
  const auto count = ::read(fd.get(), block.data(), block.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) {
    fd.reset();
    return false;
  }
  into.append(block.data(), static_cast<std::size_t>(count));
  return true;
}

}  // namespace

Subprocess::Subprocess(std::vector<std::string> command, SubprocessOptions options)
    : started_(Clock::now()) {
  auto out = options.terminal ? make_terminal() : make_pipe();
  auto err = make_pipe();
  const auto input = make_input(options.input);
  pid_ = ::fork();
  if (pid_ < 0) throw io_error("fork");
  if (pid_ == 0) {
    // Whatever the test itself was started with (nohup, a script's background) is not the child's.
    for (int signal = 1; signal < SIGRTMIN; ++signal) ::signal(signal, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (options.terminal) {
      ::setsid();
      ::ioctl(out.write_end.get(), TIOCSCTTY, 0);
    } else {
      ::setpgid(0, 0);
    }
    ::dup2(input.get(), STDIN_FILENO);
    ::dup2(out.write_end.get(), STDOUT_FILENO);
    ::dup2(options.terminal ? out.write_end.get() : err.write_end.get(), STDERR_FILENO);
    if (options.terminal) out.write_end.reset();
    for (const auto& [name, value] : options.environment) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    std::vector<char*> arguments;
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execvp(arguments.front(), arguments.data());
    ::_exit(127);
  }
  if (!options.terminal) ::setpgid(pid_, pid_);
  out_ = std::move(out.read_end);
  err_ = std::move(err.read_end);
}

Subprocess::~Subprocess() {
  if (has_exited()) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Subprocess::signal(int number) const {
  ::kill(pid_, number);
}
void Subprocess::signal_group(int number) const {
  ::kill(-pid_, number);
}

void Subprocess::type(const std::string& keys) const {
  if (::write(out_.get(), keys.data(), keys.size()) < 0) throw io_error("type");
}

bool Subprocess::has_exited() {
  if (status_) return true;
  int status = 0;
  rusage usage{};
  if (::wait4(pid_, &status, WNOHANG, &usage) != pid_) return false;
  status_ = status;
  finished_.time = Clock::now() - started_;
  finished_.cpu_time = to_duration(usage.ru_utime) + to_duration(usage.ru_stime);
  finished_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  finished_.exit_code = finished_.signal != 0 ? 128 + finished_.signal : WEXITSTATUS(status);
  return true;
}

/// Returns whether anything is left to read.
bool Subprocess::read_some(std::chrono::milliseconds timeout) {
  std::array<pollfd, 2> fds{pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0}};
  ::poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
  if (fds[0].revents != 0) drain(out_, finished_.out);
  if (fds[1].revents != 0) drain(err_, finished_.err);
  return out_ || err_;
}

bool Subprocess::wait_for(const std::string& text, std::chrono::duration<double> deadline) {
  const auto holds = [&] {
    return finished_.out.find(text) != std::string::npos ||
           finished_.err.find(text) != std::string::npos;
  };
  const auto end = Clock::now() + deadline;
  while (!holds()) {
    if (Clock::now() > end || !read_some(10ms)) break;
  }
  EXPECT_TRUE(holds()) << "never wrote '" << text << "', but:\n" << finished_.out << finished_.err;
  return holds();
}

Finished Subprocess::wait(std::chrono::duration<double> deadline) {
  const auto end = Clock::now() + deadline;
  while (read_some(5ms) && Clock::now() < end) {
  }
  while (!has_exited() && Clock::now() < end) pause_briefly();
  if (!has_exited()) {
    ADD_FAILURE() << "did not end within " << deadline.count() << " s; so far:\n"
                  << finished_.out << finished_.err;
    ::kill(-pid_, SIGKILL);
  }
  return finished_;
}

bool Subprocess::wait_for_exit(std::chrono::duration<double> deadline) {
  return eventually([&] { return has_exited(); }, deadline);
}

Finished run(std::vector<std::string> command, SubprocessOptions options) {
  return Subprocess(std::move(command), std::move(options)).wait(120s);
}

std::vector<std::string> lockstep_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), LOCKSTEP_BINARY);
  return arguments;
}

std::vector<std::string> shell(std::vector<std::string> options, const std::string& script) {
  options.insert(options.begin(), "run");
  options.insert(options.end(), {"sh", "-c", script});
  return options;
}

Finished lockstep(std::vector<std::string> arguments, SubprocessOptions options) {
  return run(lockstep_command(std::move(arguments)), std::move(options));
}

std::string sorted_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line + '\n');
  std::sort(lines.begin(), lines.end());
  return std::accumulate(lines.begin(), lines.end(), std::string());
}

std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    try {
      const auto environment = '\0' + read_file(entry.path() / "environ");
      if (environment.find('\0' + variable + '\0') != std::string::npos) {
        found.push_back(std::stoi(name));
      }
    } catch (const Error&) {
      // It has ended since, or is not ours.
    }
  }
  return found;
}

std::string unique_mark(const std::string& name) {
  return name + "-" + std::to_string(::getpid());
}

bool is_asleep(pid_t thread) {
  const auto counters = process_counters(thread);
  return counters && counters->state == 'S';
}

void pause_briefly() {
  std::this_thread::sleep_for(2ms);
}

}  // namespace lockstep::testing
