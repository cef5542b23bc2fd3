#include "lockstep/launch/hosts/engine_process.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/launch/start/find_program.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::launch {
namespace {

struct Ends {
  UniqueFd ours;
  UniqueFd theirs;
};

Ends make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw io_error("run: socketpair");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// ssh may not ask anybody for anything.
topology::Environment without_prompts(topology::Environment environment) {
  environment.remove("SSH_ASKPASS");
  environment.remove("SSH_ASKPASS_REQUIRE");
  return environment;
}

/// An agent that ssh has started takes its address from these. One that was started here would
/// take that of the user's own login.
topology::Environment without_login(topology::Environment environment) {
  for (const auto* name : {"SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"}) environment.remove(name);
  return environment;
}

}  // namespace

EngineProcess::EngineProcess(const EngineCommand& command, const topology::Environment& environment,
                             const sigset_t& signal_mask, DeathWatch& deaths)
    : hosts_(command.hosts) {
  const auto program = find_program(command.arguments.front(), environment);
  auto output = make_pipe();
  ::fcntl(output.read_end.get(), F_SETFL, O_NONBLOCK);
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Ends channel;
  if (command.carries_channel) channel = make_socket_pair();
  auto variables = without_prompts(environment);
  if (command.is_agent) variables = without_login(std::move(variables));
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  auto spawned =
      spawn({.program = program,
             .arguments = command.arguments,
             .environment = variables.to_strings(),
             .stdin_fd = command.carries_channel ? channel.theirs.get() : nothing.get(),
             .stdout_fd = command.carries_channel ? channel.theirs.get() : output.write_end.get(),
             .stderr_fd = output.write_end.get(),
             .cpus = {},
             .signal_mask = signal_mask,
             .descriptors = descriptors});
  deaths.add(spawned.pid());
  spawned.execute(program);
  pid_ = spawned.pid();
  channel_ = std::move(channel.ours);
  output_ = std::move(output.read_end);
}

std::optional<Channel> EngineProcess::take_channel() {
  if (!channel_) return std::nullopt;
  return Channel(std::move(channel_), {}, Channel::Noise::UntilGreeting);
}

void EngineProcess::read_output() {
  std::array<char, 4096> block;
  while (output_) {
    const auto count = ::read(output_.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return output_.reset();
    tail_.add(std::string_view(block.data(), static_cast<std::size_t>(count)));
  }
}

void EngineProcess::note_end(const events::ExitStatus& status) {
  status_ = status;
  read_output();
}

}  // namespace lockstep::launch
