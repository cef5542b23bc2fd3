#include "tests/support/fake_hosts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep::testing {
namespace {

/// Drops ssh's options. The agent's variables say which host it is on.
constexpr const char* kSsh = R"(#!/bin/sh
while :; do case $1 in -T) shift;; -o) shift 2;; *) break;; esac; done
host=$1; shift
here=$(dirname "$0")
case $host in
x1) address=127.0.0.2;; x2) address=127.0.0.3;; x3) address=127.0.0.4;;
*) echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255;;
esac
if [ -e "$here/$host.unplugged" ]; then
  echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255
fi
export SSH_CONNECTION="127.0.0.1 4000 $address 22" FAKE_HOST=$host
if [ -d "$here/$host.tmp" ]; then export TMPDIR="$here/$host.tmp" XDG_RUNTIME_DIR=; fi
if [ -e "$here/$host.agent" ]; then exec sh "$here/$host.agent"; fi
eval "$*"
)";

}  // namespace

FakeHosts::FakeHosts() : mark_(unique_mark("hosts")) {
  folder_.write("ssh", kSsh, 0755);
}

std::vector<std::string> FakeHosts::run_command(const std::string& hosts,
                                                std::vector<std::string> options,
                                                const std::vector<std::string>& program) {
  options.insert(options.begin(), {"run", "--launcher", "ssh", "--host", hosts});
  options.insert(options.end(), program.begin(), program.end());
  return options;
}

SubprocessOptions FakeHosts::options() const {
  const char* path = std::getenv("PATH");
  return {.environment = {{"PATH", folder_.path() + ":" + (path != nullptr ? path : "/usr/bin")},
                          {"LOCKSTEP_TEST_MARK", mark_}}};
}

Finished FakeHosts::lockstep(const std::vector<std::string>& arguments) const {
  auto result = testing::lockstep(arguments, options());
  EXPECT_TRUE(wait_until_gone(20s)) << "processes are left";
  return result;
}

std::vector<pid_t> FakeHosts::processes() const {
  return processes_with("LOCKSTEP_TEST_MARK=" + mark_);
}

std::vector<pid_t> FakeHosts::agents(const std::string& host) const {
  std::vector<pid_t> found;
  for (const auto pid : processes()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    const std::string command((std::istreambuf_iterator<char>(file)), {});
    const auto of_host = processes_with("FAKE_HOST=" + host);
    if (command.find(std::string("\0agent", 6)) != std::string::npos &&
        std::ranges::find(of_host, pid) != of_host.end()) {
      found.push_back(pid);
    }
  }
  return found;
}

bool FakeHosts::wait_until_gone(std::chrono::duration<double> deadline) const {
  return eventually([&] { return processes().empty(); }, deadline);
}

void FakeHosts::replace_agent(const std::string& host, const std::string& script) const {
  folder_.write(host + ".agent", script);
}

void FakeHosts::unplug(const std::string& host) const {
  folder_.write(host + ".unplugged", "");
}

void FakeHosts::give_own_folder(const std::string& host) const {
  std::filesystem::create_directory(folder_.path() + "/" + host + ".tmp");
}

void FakeHosts::plug_in(const std::string& host) const {
  std::filesystem::remove(folder_.path() + "/" + host + ".unplugged");
}

}  // namespace lockstep::testing
