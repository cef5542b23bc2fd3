#include "lockstep/monitor/web/dashboard_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/monitor/web/access.h"
#include "lockstep/monitor/web/answers.h"
#include "lockstep/monitor/web/connection_table.h"
#include "lockstep/monitor/web/dashboard_state.h"
#include "lockstep/monitor/web/listen_socket.h"
#include "lockstep/monitor/web/stream.h"

namespace lockstep::monitor {
namespace {

using Clock = ConnectionTable::Clock;
using std::chrono::milliseconds;

constexpr std::size_t kBytesPerConnection = std::size_t{16} << 10;
constexpr milliseconds kBetweenChecks{100};
constexpr int kMostConnections = 4096;
constexpr int kFewestConnections = 8;

void check(const DashboardOptions& options) {
  if (!options.token && options.address != "localhost" && !is_loopback(options.address)) {
    throw Error(
        ErrorKind::Options,
        fmt::format("dashboard: others can reach {}, so a token is needed, and none was given",
                    options.address),
        "give a token, or serve on 127.0.0.1 and reach it through ssh -L");
  }
  if (options.most_connections < kFewestConnections ||
      options.most_connections > kMostConnections) {
    throw Error(ErrorKind::Options,
                fmt::format("dashboard: expected room for {} to {} connections, found {}",
                            kFewestConnections, kMostConnections, options.most_connections));
  }
  if (options.most_streams < 1 || options.most_streams > options.most_connections / 2) {
    throw Error(
        ErrorKind::Options,
        fmt::format("dashboard: expected 1 to {} streams, half of the connections, found {}",
                    options.most_connections / 2, options.most_streams));
  }
  if (options.interval < milliseconds(10)) {
    throw Error(ErrorKind::Options,
                fmt::format("dashboard: expected at least 10 ms between two looks, found {} ms",
                            options.interval.count()));
  }
}

std::string_view header_of(MHD_Connection* connection, const char* name) {
  const char* value = ::MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? std::string_view() : value;
}

bool has_body(MHD_Connection* connection) {
  const auto length = header_of(connection, "Content-Length");
  return !header_of(connection, "Transfer-Encoding").empty() || (!length.empty() && length != "0");
}

/// Another site's page may send requests from the user's browser, but may not use up our streams.
bool is_from_another_site(MHD_Connection* connection) {
  const auto site = header_of(connection, "Sec-Fetch-Site");
  return !site.empty() && site != "same-origin" && site != "none";
}

/// Leaves a path as it was sent. No path of ours needs decoding, and one that holds a zero byte
/// would be another path after it.
std::size_t leave_as_it_is(void*, MHD_Connection*, char* text) {
  return std::strlen(text);
}

/// Starts a thread that no signal of the process is delivered to.
template <typename Body>
std::thread start_without_signals(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

class DashboardServer::Service {
 public:
  Service(JobFeed& feed, const DashboardOptions& options);
  ~Service();

  int port() const { return port_; }
  std::string url() const;
  DashboardStatistics statistics() const;

 private:
  struct DaemonDeleter {
    void operator()(MHD_Daemon* daemon) const { ::MHD_stop_daemon(daemon); }
  };
  struct Refusals {
    Response method = make_refusal("The dashboard answers GET and HEAD alone.");
    Response body = make_refusal("The dashboard takes no content.");
    Response host = make_refusal(
        "This server has another name. Call it localhost, or by its address as numbers.");
    Response site = make_refusal("The dashboard answers its own page alone.");
    Response token = make_refusal(
        "A token is needed: open the address that lockstep has shown, with its token.");
    Response path = make_refusal("There is no such page.");
    Response streams = make_refusal("Too many pages are open; close one.");
  };

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* content,
                               std::size_t* content_size, void** request);
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode code);
  static void on_answered(void* self, MHD_Connection* connection, void** request,
                          MHD_RequestTerminationCode code);

  void start_daemon(int listen_fd);
  void run();
  void wait(Clock::time_point until);
  MHD_Result answer(MHD_Connection* connection, std::string_view method, std::string_view path);
  MHD_Result answer_api(MHD_Connection* connection, std::string_view path);
  MHD_Result open_stream(MHD_Connection* connection);
  MHD_Result let_in(MHD_Connection* connection);
  bool has_token(MHD_Connection* connection) const;
  std::string cookie_name() const { return fmt::format("lockstep_token_{}", port_); }
  MHD_Response* state_response();
  void count();

  DashboardOptions options_;
  TokenCheck token_;
  int port_ = 0;
  PageResponses page_;
  Refusals refusals_;
  DashboardState state_;
  ConnectionTable connections_;
  StreamSet streams_;
  Response state_response_;
  std::uint64_t state_response_version_ = 0;
  std::unique_ptr<MHD_Daemon, DaemonDeleter> daemon_;
  UniqueFd stop_;
  std::uint64_t accepted_ = 0;
  std::atomic<std::uint64_t> requests_ = 0;
  std::atomic<std::uint64_t> connections_so_far_ = 0;
  std::atomic<std::uint64_t> given_up_ = 0;
  std::atomic<int> open_connections_ = 0;
  std::atomic<int> open_streams_ = 0;
  std::thread thread_;
};

DashboardServer::Service::Service(JobFeed& feed, const DashboardOptions& options)
    : options_(options),
      token_(options.token ? TokenCheck(*options.token) : TokenCheck()),
      state_(feed),
      connections_({.most = static_cast<std::size_t>(options.most_connections),
                    .request = options.patience,
                    .answer = options.patience * 4}),
      streams_(state_, connections_),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!stop_) throw io_error("dashboard");
  const auto listening = listen_at(options.address, options.port);
  port_ = listening.port;
  start_daemon(listening.fd.get());
  thread_ = start_without_signals([this] { run(); });
}

DashboardServer::Service::~Service() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof(one)));
  thread_.join();
}

/// libmicrohttpd closes the socket that it is given, so it gets one of its own.
void DashboardServer::Service::start_daemon(int listen_fd) {
  const int fd = ::fcntl(listen_fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) throw io_error("dashboard");
  daemon_.reset(::MHD_start_daemon(
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, &Service::on_request, this,
      MHD_OPTION_LISTEN_SOCKET, static_cast<MHD_socket>(fd),                          //
      MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(options_.most_connections),  //
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kBytesPerConnection,                        //
      MHD_OPTION_STRICT_FOR_CLIENT, 1,                                                //
      MHD_OPTION_UNESCAPE_CALLBACK, &leave_as_it_is, nullptr,                         //
      MHD_OPTION_NOTIFY_CONNECTION, &Service::on_connection, this,                    //
      MHD_OPTION_NOTIFY_COMPLETED, &Service::on_answered, this,                       //
      MHD_OPTION_END));
  if (!daemon_) throw Error(ErrorKind::Io, "dashboard: libmicrohttpd could not be started");
}

/// All that the server does happens here: no lock is needed.
void DashboardServer::Service::run() {
  auto next_look = Clock::now();
  auto next_check = next_look;
  pollfd stop{.fd = stop_.get(), .events = POLLIN, .revents = 0};
  while (::poll(&stop, 1, 0) == 0) {
    const auto now = Clock::now();
    if (now >= next_look) {
      state_.refresh();
      streams_.wake(now);
      next_look = Clock::now() + options_.interval;
    }
    if (now >= next_check) {
      connections_.give_up_overdue(now);
      next_check = now + kBetweenChecks;
    }
    ::MHD_run(daemon_.get());
    count();
    wait(std::min(next_look, next_check));
  }
  streams_.end();
  ::MHD_run(daemon_.get());
  daemon_.reset();
}

void DashboardServer::Service::wait(Clock::time_point until) {
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  auto timeout = std::max<std::int64_t>(left, 0);
  MHD_UNSIGNED_LONG_LONG wanted = 0;
  if (::MHD_get_timeout(daemon_.get(), &wanted) == MHD_YES) {
    timeout = std::min<std::int64_t>(timeout, static_cast<std::int64_t>(wanted));
  }
  const auto* const info = ::MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_EPOLL_FD);
  pollfd awaited[] = {{.fd = info->epoll_fd, .events = POLLIN, .revents = 0},
                      {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  ::poll(awaited, 2, static_cast<int>(timeout));
}

void DashboardServer::Service::count() {
  connections_so_far_ = accepted_;
  given_up_ = connections_.given_up();
  open_connections_ = static_cast<int>(connections_.size());
  open_streams_ = static_cast<int>(streams_.size());
}

void DashboardServer::Service::on_connection(void* self, MHD_Connection* connection, void**,
                                             MHD_ConnectionNotificationCode code) {
  auto& service = *static_cast<Service*>(self);
  if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
    service.connections_.remove(connection);
    return;
  }
  const auto* const info = ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  ++service.accepted_;
  service.connections_.add(connection, info->connect_fd, Clock::now());
}

void DashboardServer::Service::on_answered(void* self, MHD_Connection* connection, void**,
                                           MHD_RequestTerminationCode) {
  static_cast<Service*>(self)->connections_.awaiting_request(connection, Clock::now());
}

/// libmicrohttpd calls it when it has the headers, and again when the request is complete.
MHD_Result DashboardServer::Service::on_request(void* self, MHD_Connection* connection,
                                                const char* url, const char* method, const char*,
                                                const char*, std::size_t* content_size,
                                                void** request) {
  auto& service = *static_cast<Service*>(self);
  try {
    if (*request == nullptr) {
      *request = self;
      if (!has_body(connection)) return MHD_YES;
      ++service.requests_;
      service.connections_.answering(connection, Clock::now());
      return ::MHD_queue_response(connection, MHD_HTTP_CONTENT_TOO_LARGE,
                                  service.refusals_.body.get());
    }
    if (*content_size != 0) return MHD_NO;
    ++service.requests_;
    service.connections_.answering(connection, Clock::now());
    return service.answer(connection, method, url);
  } catch (const std::exception&) {
    return MHD_NO;  // closes the connection; out of memory is all that it can be
  }
}

MHD_Result DashboardServer::Service::answer(MHD_Connection* connection, std::string_view method,
                                            std::string_view path) {
  if (method != "GET" && method != "HEAD") {
    return ::MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, refusals_.method.get());
  }
  if (!is_our_name(header_of(connection, "Host"), options_.names)) {
    return ::MHD_queue_response(connection, MHD_HTTP_MISDIRECTED_REQUEST, refusals_.host.get());
  }
  if (token_.is_needed() && !has_token(connection)) return let_in(connection);
  if (path.starts_with("/api/")) return answer_api(connection, path);
  if (auto* const file = page_.find(path)) {
    return ::MHD_queue_response(connection, MHD_HTTP_OK, file);
  }
  return ::MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, refusals_.path.get());
}

bool DashboardServer::Service::has_token(MHD_Connection* connection) const {
  constexpr std::string_view kBearer = "Bearer ";
  const auto authorization = header_of(connection, "Authorization");
  if (authorization.starts_with(kBearer)) {
    return token_.accepts(authorization.substr(kBearer.size()));
  }
  const auto value = cookie(header_of(connection, "Cookie"), cookie_name());
  return value && token_.accepts(*value);
}

/// A token in the address becomes a cookie, so that it does not stay in the address bar, in which
/// others would see it, nor in the browser's history.
MHD_Result DashboardServer::Service::let_in(MHD_Connection* connection) {
  const char* token = ::MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
  if (token == nullptr || !token_.accepts(token)) {
    return ::MHD_queue_response(connection, MHD_HTTP_UNAUTHORIZED, refusals_.token.get());
  }
  const auto response = make_refusal("Go on to the page.");
  add_header(response.get(), "Location", "/");
  add_header(response.get(), "Set-Cookie",
             fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(), token));
  return ::MHD_queue_response(connection, MHD_HTTP_SEE_OTHER, response.get());
}

MHD_Result DashboardServer::Service::answer_api(MHD_Connection* connection, std::string_view path) {
  if (is_from_another_site(connection)) {
    return ::MHD_queue_response(connection, MHD_HTTP_FORBIDDEN, refusals_.site.get());
  }
  if (path == "/api/jobs") return ::MHD_queue_response(connection, MHD_HTTP_OK, state_response());
  if (path == "/api/stream") return open_stream(connection);
  return ::MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, refusals_.path.get());
}

MHD_Result DashboardServer::Service::open_stream(MHD_Connection* connection) {
  if (streams_.size() >= static_cast<std::size_t>(options_.most_streams)) {
    return ::MHD_queue_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, refusals_.streams.get());
  }
  const Response response(streams_.open(connection));
  if (!response) return MHD_NO;
  add_common_headers(response.get(), "text/event-stream");
  return ::MHD_queue_response(connection, MHD_HTTP_OK, response.get());
}

/// Made once for all who ask for the same state.
MHD_Response* DashboardServer::Service::state_response() {
  if (!state_response_ || state_response_version_ != state_.version()) {
    state_response_ = make_response(*state_.text(), "application/json");
    state_response_version_ = state_.version();
  }
  return state_response_.get();
}

std::string DashboardServer::Service::url() const {
  const auto& named = options_.names.empty() ? options_.address : options_.names.front();
  const auto host = named.find(':') == std::string::npos ? named : fmt::format("[{}]", named);
  const auto token = options_.token ? fmt::format("?token={}", *options_.token) : std::string();
  return fmt::format("http://{}:{}/{}", host, port_, token);
}

DashboardStatistics DashboardServer::Service::statistics() const {
  return {.requests = requests_,
          .connections = connections_so_far_,
          .given_up = given_up_,
          .open_connections = open_connections_,
          .open_streams = open_streams_};
}

bool dashboard_is_built() noexcept {
  return true;
}

DashboardServer::DashboardServer(JobFeed& feed, const DashboardOptions& options) {
  check(options);
  service_ = std::make_unique<Service>(feed, options);
}

DashboardServer::~DashboardServer() = default;

int DashboardServer::port() const noexcept {
  return service_->port();
}

std::string DashboardServer::url() const {
  return service_->url();
}

DashboardStatistics DashboardServer::statistics() const noexcept {
  return service_->statistics();
}

}  // namespace lockstep::monitor
