#include "lockstep/launch/hosts/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/base/version.h"
#include "lockstep/comm/tcp/socket.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/launch/engine/engine.h"
#include "lockstep/launch/hosts/host_environment.h"
#include "lockstep/launch/hosts/wire.h"
#include "lockstep/launch/start/find_program.h"
#include "lockstep/launch/supervise/supervisor.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kLauncherPingInterval{1};

/// The address that the launcher has reached this host at; empty where that is not known.
std::string own_address(const Channel& channel, const topology::Environment& environment) {
  if (auto address = channel.local_address(); !address.empty()) return address;
  // "client-address client-port server-address server-port"
  const auto connection = environment.get("SSH_CONNECTION").value_or("");
  const auto parts = split(connection, ' ');
  return parts.size() == 4 ? std::string(parts[2]) : std::string();
}

/// The agent's number among those that mpirun or srun started; -1 where neither did.
int own_rank(const topology::Environment& environment) {
  for (const auto* name : {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    if (const auto rank = parse_integer(environment.get(name).value_or(""))) {
      return static_cast<int>(*rank);
    }
  }
  return -1;
}

/// The message of what a function throws; empty where it does not.
template <typename Function>
std::string problem_of(const Function& function) {
  try {
    function();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// What instances write of their own into the job's log goes through here.
UniqueFd open_log_pipe(const std::string& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) throw io_error("run: mkfifo " + path);
  // For writing too, so that there is no end when nobody else has it open.
  UniqueFd pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!pipe) throw io_error("run: open " + path);
  return pipe;
}

void make_log_dir(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return;
  // The launcher puts the host's name in front.
  throw Error(ErrorKind::Io, fmt::format("run: --log-dir {}: {}", folder, error.message()),
              "--log-dir with a folder that can be made on every host");
}

Message to_message(const Error& error) {
  return {{"is", "error"},
          {"kind", static_cast<int>(error.kind())},
          {"text", error.what()},
          {"hint", error.hint()}};
}

std::vector<RouteCheck::Peer> to_peers(const Message& message) {
  std::vector<RouteCheck::Peer> peers;
  for (const auto& host : message) {
    peers.push_back({.host = host.at("index").get<int>(),
                     .address = host.at("address").get<std::string>(),
                     .port = host.at("port").get<int>()});
  }
  return peers;
}

}  // namespace

struct Agent::Prepared {
  Prepared(const comm::tcp::Secret& job_secret, comm::host::KeptMemory kept, Channel& channel)
      : secret(job_secret), memory(std::move(kept)), sink(channel, memory) {}

  comm::tcp::Secret secret;
  comm::host::KeptMemory memory;
  ForwardingSink sink;
  ReservedPort port;
  JobContext context;
  StartOptions start;
  std::optional<InstanceStarter> starter;  ///< from the first attempt on
  int host = 0;
  std::string host_name;
  events::Seconds grace{0};
  UniqueFd log_pipe;
  std::string unfinished_log;  ///< a line that has not come whole yet
  UniqueFd listener;
};

Agent::Agent(Channel channel, topology::Environment environment, RunDirectory& folder,
             Signals& signals, int warden, HostReporter reporter)
    : channel_(std::move(channel)),
      environment_(std::move(environment)),
      folder_(folder),
      signals_(signals),
      warden_(warden),
      reporter_(std::move(reporter)),
      next_ping_(Clock::now() + kLauncherPingInterval) {}

Agent::~Agent() = default;

int Agent::run() {
  say_hello();
  while (!is_done_ && !is_launcher_gone() && !is_warden_gone_) {
    wait_while_idle();
    for (const auto& message : channel_.receive()) handle(message, nullptr);
    while (const auto signal = signals_.take()) {
      if (ends_job(*signal)) note_signal(*signal);
    }
    if (routes_) report_routes();
    ping_if_due();
  }
  return is_done_ ? 0 : exit_code(ErrorKind::PeerLost);
}

void Agent::say_hello() {
  channel_.send({{"is", "hello"},
                 {"version", version()},
                 {"commit", commit()},
                 {"build", build_description()},
                 {"name", environment_.get("SLURMD_NODENAME").value_or(this_host())},
                 {"address", own_address(channel_, environment_)},
                 {"rank", own_rank(environment_)},
                 {"machine", launch::to_message(discover_machine())}});
}

void Agent::wait_while_idle() {
  auto fds = descriptors();
  fds.push_back({signals_.fd(), POLLIN, 0});
  fds.push_back({warden_, POLLIN, 0});
  auto time = next_ping_;
  if (routes_) {
    std::ranges::copy(routes_->descriptors(), std::back_inserter(fds));
    time = std::min(time, routes_->next_time().value_or(time));
  }
  const auto left = std::chrono::ceil<milliseconds>(time - Clock::now());
  const auto warden = std::ranges::find(fds, warden_, &pollfd::fd) - fds.begin();
  ::poll(fds.data(), fds.size(), static_cast<int>(std::max(milliseconds(0), left).count()));
  is_warden_gone_ = fds[static_cast<std::size_t>(warden)].revents != 0;
  channel_.flush();
}

std::vector<pollfd> Agent::descriptors() const {
  auto fds = channel_.descriptors();
  if (prepared_) fds.push_back({prepared_->log_pipe.get(), POLLIN, 0});
  return fds;
}

std::optional<Overseer::Clock::time_point> Agent::next_time() const {
  return next_ping_;
}

void Agent::attend(Supervisor& supervisor) {
  channel_.flush();
  for (const auto& message : channel_.receive()) handle(message, &supervisor);
  forward_log();
  ping_if_due();
  if (is_launcher_gone() || is_done_) supervisor.kill(Supervisor::Output::Drop);
}

/// The job is the launcher's to end, on all hosts.
void Agent::note_signal(int signal) {
  channel_.send({{"is", "signalled"}, {"signal", signal}});
}

void Agent::note_warden_gone() {
  channel_.send({{"is", "leaving"}});
}

bool Agent::is_launcher_gone() const {
  return channel_.has_ended() ||
         (patience_.count() > 0 && Clock::now() - channel_.last_heard() > patience_);
}

void Agent::ping_if_due() {
  if (Clock::now() < next_ping_) return;
  next_ping_ = Clock::now() + kLauncherPingInterval;
  Message message{{"is", "alive"}};
  if (prepared_) {
    message["step"] = prepared_->memory.step();
    message["kept"] = prepared_->memory.num_pieces() > 0;
  }
  channel_.send(message);
  report_host();
}

/// Not while the launcher has yet to take what was said before: an old report is of no use.
void Agent::report_host() {
  if (!prepared_ || channel_.unsent() > 0) return;
  auto report = reporter_({.name = prepared_->host_name,
                           .job_id = prepared_->context.job_id,
                           .folder = folder_.path()});
  if (!report.empty()) channel_.send({{"is", "report"}, {"text", std::move(report)}});
}

void Agent::handle(const Message& message, Supervisor* supervisor) {
  const auto kind = kind_of(message);
  try {
    if (kind == "ping") {
      channel_.send({{"is", "pong"}, {"sent", message.at("sent")}, {"time", seconds_of_day()}});
    } else if (kind == "took" && prepared_) {
      prepared_->sink.note_taken(message.at("bytes").get<std::size_t>());
    } else if (kind == "quit") {
      is_done_ = true;
    } else if (supervisor != nullptr) {
      command(message, *supervisor);
    } else if (kind == "prepare") {
      prepare(message);
    } else if (kind == "routes") {
      check_routes(message);
    } else if (kind == "start") {
      run_attempt(message);
    }
  } catch (const Error& error) {
    channel_.send(to_message(error));
  } catch (const std::exception& error) {
    channel_.send(to_message(Error(
        ErrorKind::Bug, fmt::format("agent: '{}' from the launcher: {}", kind, error.what()))));
  }
}

void Agent::command(const Message& message, Supervisor& supervisor) {
  const auto kind = kind_of(message);
  if (kind == "end") {
    supervisor.end();
  } else if (kind == "kill") {
    const bool drops = message.at("drop").get<bool>();
    supervisor.kill(drops ? Supervisor::Output::Drop : Supervisor::Output::Deliver);
  } else if (kind == "signal") {
    supervisor.pass_on(message.at("signal").get<int>());
  } else if (kind == "report") {
    supervisor.report(message.at("instance").get<int>());
  }
}

void Agent::prepare(const Message& message) {
  patience_ = events::Seconds(message.at("stall_timeout").get<double>());
  folder_.create();
  const auto secret = comm::tcp::Secret::parse(
      message.value("secret", environment_.get(kAgentSecret).value_or("")));
  if (!secret) throw Error(ErrorKind::Bug, "agent: the launcher's secret cannot be read");
  secret->write(folder_.path());
  const auto job_id = message.at("job_id").get<std::string>();
  prepared_ = std::make_unique<Prepared>(*secret, comm::host::KeptMemory::create(job_id), channel_);
  auto& made = *prepared_;
  made.host = message.at("host").get<int>();
  made.host_name = message.at("name").get<std::string>();
  made.grace = events::Seconds(message.at("grace").get<double>());
  made.context = {
      .job_id = job_id,
      .run_dir = folder_.path(),
      .rendezvous = {},
      .environment = host_environment(to_environment(message.at("environment")), environment_),
      .events_file = folder_.path() + "/events",
      .kept_memory = made.memory.file(),
      .runs_under_agent = true};
  made.log_pipe = open_log_pipe(made.context.events_file);
  made.start = {.program = message.at("program").get<std::string>(),
                .arguments = message.at("arguments").get<std::vector<std::string>>(),
                .log_dir = message.at("log_dir").get<std::string>(),
                .input = StartOptions::Input::Nothing};
  channel_.send(look_around(message));
}

/// What of the job's needs is met here; a problem is empty where there is none.
Message Agent::look_around(const Message& message) {
  auto& made = *prepared_;
  const auto folder = message.at("folder").get<std::string>();
  Message answer{{"is", "prepared"}, {"master_port", made.port.port()}, {"port", 0}};
  answer["folder"] =
      ::chdir(folder.c_str()) == 0 ? "" : fmt::format("{}: {}", folder, std::strerror(errno));
  answer["program"] = problem_of([&] {
    if (!made.start.program.empty()) find_program(made.start.program, made.context.environment);
  });
  answer["listener"] = problem_of([&] {
    made.listener = comm::tcp::listen_at({message.at("address").get<std::string>(), 0});
    made.context.listener = made.listener.get();
    answer["port"] = comm::tcp::port_of(made.listener.get());
  });
  return answer;
}

void Agent::check_routes(const Message& message) {
  routes_.emplace(prepared_->listener.get(), prepared_->secret, to_peers(message.at("hosts")),
                  prepared_->host);
  routes_are_reported_ = false;
}

void Agent::report_routes() {
  routes_->attend();
  if (!routes_->is_done() || routes_are_reported_) return;
  routes_are_reported_ = true;
  auto failures = Message::array();
  for (const auto& [host, why] : routes_->failures()) {
    failures.push_back({{"host", host}, {"why", why}});
  }
  channel_.send({{"is", "routes"}, {"failures", std::move(failures)}});
}

void Agent::run_attempt(const Message& message) {
  routes_.reset();
  auto& own = *prepared_;
  make_log_dir(own.start.log_dir);
  own.context.rendezvous = {message.at("master").get<std::string>(),
                            message.at("master_port").get<int>()};
  own.context.leader_joins_mpi = message.at("mpi").get<bool>();
  JobPlan plan;
  for (const auto& instance : message.at("instances")) {
    plan.instances.push_back(to_planned_instance(instance));
  }
  plan.environment =
      message.at("variables").get<std::vector<std::pair<std::string, std::string>>>();
  if (!own.starter) own.starter.emplace(own.context, own.start, signals_);
  Supervisor supervisor(std::move(plan), *own.starter,
                        {.grace_period = own.grace,
                         .stall_timeout = patience_,
                         .warden = warden_,
                         .kept_memory = &own.memory,
                         .first_attempt = message.at("attempt").get<int>(),
                         .overseer = this},
                        signals_, own.sink);
  Message over{{"is", "over"}};
  try {
    supervisor.run();
  } catch (const Error& error) {
    over = to_message(error);
    over["is"] = "over";
  }
  forward_log();
  over["survivors"] = supervisor.has_survivors();
  over["step"] = own.memory.step();
  over["kept"] = own.memory.num_pieces() > 0;
  channel_.send(over);
}

void Agent::forward_log() {
  if (!prepared_) return;
  auto& lines = prepared_->unfinished_log;
  std::array<char, 64 * 1024> block;
  ssize_t count = 0;
  while ((count = ::read(prepared_->log_pipe.get(), block.data(), block.size())) > 0) {
    lines.append(block.data(), static_cast<std::size_t>(count));
  }
  const auto end = lines.rfind('\n');
  if (end == std::string::npos) return;
  channel_.send({{"is", "log"}, {"lines", lines.substr(0, end + 1)}});
  lines.erase(0, end + 1);
}

}  // namespace lockstep::launch
