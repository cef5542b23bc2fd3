#include "lockstep/monitor/web/dashboard_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/monitor/web/access.h"
#include "lockstep/monitor/web/connection_table.h"
#include "lockstep/monitor/web/dashboard_state.h"
#include "lockstep/monitor/web/page_files.h"

namespace lockstep::monitor {
namespace {

using Clock = ConnectionTable::Clock;
using Text = std::shared_ptr<const std::string>;
using std::chrono::milliseconds;

constexpr std::size_t kBytesPerConnection = std::size_t{16} << 10;
constexpr std::size_t kStreamBlockBytes = 4096;
constexpr int kBacklog = 128;
constexpr int kMostConnections = 4096;
constexpr int kFewestConnections = 8;
constexpr milliseconds kBetweenChecks{100};
constexpr milliseconds kForLastState{300};
// A client that has gone is noticed only when the server sends to it.
constexpr std::chrono::seconds kLongestSilence{10};
constexpr std::string_view kEventHead = "event: state\ndata: ";
constexpr std::string_view kEventTail = "\n\n";

// Scripts and styles are only our own files: no text of a job can become one.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void check(const DashboardOptions& options) {
  const auto fail = [](const std::string& message, const char* hint = "") {
    throw Error(ErrorKind::Options, "dashboard: " + message, hint);
  };
  if (!options.token && options.address != "localhost" && !is_loopback(options.address)) {
    fail(fmt::format("others can reach {}, so a token is needed, and none was given",
                     options.address),
         "give a token, or serve on 127.0.0.1 and reach it through ssh -L");
  }
  if (options.most_connections < kFewestConnections ||
      options.most_connections > kMostConnections) {
    fail(fmt::format("expected room for {} to {} connections, found {}", kFewestConnections,
                     kMostConnections, options.most_connections));
  }
  if (options.most_streams < 1 || options.most_streams > options.most_connections / 2) {
    fail(fmt::format("expected 1 to {} streams, half of the connections, found {}",
                     options.most_connections / 2, options.most_streams));
  }
  if (options.interval < milliseconds(10)) {
    fail(fmt::format("expected at least 10 ms between two looks, found {} ms",
                     options.interval.count()));
  }
  if (options.port < 0 || options.port > 65535) {
    fail(fmt::format("expected a port of 1 to 65535, or 0 for a free one, found {}", options.port));
  }
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses parse_address(const DashboardOptions& options) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const auto* const host = options.address == "localhost" ? "127.0.0.1" : options.address.c_str();
  if (::getaddrinfo(host, std::to_string(options.port).c_str(), &wanted, &found) != 0) {
    throw Error(ErrorKind::Options,
                fmt::format("dashboard: expected an address as 127.0.0.1 or ::1, found '{}'",
                            options.address),
                "give the address of this machine as numbers, or 0.0.0.0 for all of them");
  }
  return {found, &::freeaddrinfo};
}

UniqueFd listen_on(const DashboardOptions& options) {
  const auto found = parse_address(options);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  // Without SO_REUSEADDR, the port of a server that has just ended cannot be used for a minute.
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    const auto why =
        io_error(fmt::format("dashboard: port {} of {}", options.port, options.address));
    throw Error(why.kind(), why.what(), "choose another port, or 0 for one that is free");
  }
  return fd;
}

int port_of(const UniqueFd& listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size);
  // The port is at the same place for IPv4 and IPv6.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

struct ResponseDeleter {
  void operator()(MHD_Response* response) const { ::MHD_destroy_response(response); }
};
/// libmicrohttpd counts references: a response may be queued on many connections at once, and stays
/// until the last of them has sent it.
using Response = std::unique_ptr<MHD_Response, ResponseDeleter>;

void add_header(MHD_Response* response, const char* name, const std::string& value) {
  if (::MHD_add_response_header(response, name, value.c_str()) == MHD_YES) return;
  throw Error(ErrorKind::Bug, fmt::format("dashboard: libmicrohttpd refuses the header {}", name));
}

/// Adds the headers that every answer has: nothing is loaded from elsewhere, framed, cached or
/// guessed.
Response with_headers(MHD_Response* made, std::string_view type) {
  Response response(made);
  if (!response) throw Error(ErrorKind::Io, "dashboard: out of memory for an answer");
  add_header(made, "Content-Type", std::string(type));
  add_header(made, "Content-Security-Policy", kContentPolicy);
  add_header(made, "X-Content-Type-Options", "nosniff");
  add_header(made, "X-Frame-Options", "DENY");
  add_header(made, "Referrer-Policy", "no-referrer");
  add_header(made, "Cross-Origin-Opener-Policy", "same-origin");
  add_header(made, "Cross-Origin-Resource-Policy", "same-origin");
  add_header(made, "Cache-Control", "no-store");
  return response;
}

Response make_response(std::string_view content, std::string_view type) {
  // libmicrohttpd copies the content; its parameter is not const because of other modes.
  return with_headers(::MHD_create_response_from_buffer(
                          content.size(), const_cast<char*>(content.data()), MHD_RESPMEM_MUST_COPY),
                      type);
}

Response make_sentence(std::string_view sentence) {
  return make_response(fmt::format("{}\n", sentence), "text/plain; charset=utf-8");
}

MHD_Result refuse(MHD_Connection* connection, unsigned status, std::string_view sentence) {
  return ::MHD_queue_response(connection, status, make_sentence(sentence).get());
}

std::string_view header_of(MHD_Connection* connection, const char* name) {
  const char* value = ::MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? std::string_view() : value;
}

bool has_body(MHD_Connection* connection) {
  const auto length = header_of(connection, "Content-Length");
  return !header_of(connection, "Transfer-Encoding").empty() || (!length.empty() && length != "0");
}

/// A page of another site may send requests from the user's browser, but must not use up streams.
bool is_from_another_site(MHD_Connection* connection) {
  const auto site = header_of(connection, "Sec-Fetch-Site");
  return !site.empty() && site != "same-origin" && site != "none";
}

/// Does not decode paths: no path of ours needs it, and "%00" would cut a path.
std::size_t keep_encoded(void*, MHD_Connection*, char* text) {
  return std::strlen(text);
}

Text make_event(std::string_view state) {
  return std::make_shared<const std::string>(fmt::format("{}{}{}", kEventHead, state, kEventTail));
}

/// Blocks all signals of the calling thread, and thereby of the threads that it starts meanwhile.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// Two threads share the members below `mutex_`:
///
/// - libmicrohttpd's thread runs all callbacks (`on_…`, `read_stream`, `forget_stream`) and alone
///   uses `page_` and `jobs_response_`;
/// - `watcher_` alone uses `state_`, publishes events, resumes streams and closes connections.
///
/// libmicrohttpd calls back without holding a lock of its own that `MHD_resume_connection` or
/// `MHD_suspend_connection` needs, so both may be called with `mutex_` locked. No response is
/// queued or destroyed with `mutex_` locked, because that may call `forget_stream`.
class Service final : public DashboardServer {
 public:
  Service(JobFeed& feed, const DashboardOptions& options);
  ~Service() override;

  int port() const override { return port_; }
  std::string url() const override;
  DashboardStatistics statistics() const override;

 private:
  struct DaemonDeleter {
    void operator()(MHD_Daemon* daemon) const { ::MHD_stop_daemon(daemon); }
  };
  /// A stream holds one text, which it shares with other streams, and continues with the newest.
  struct Stream {
    Service* service = nullptr;
    MHD_Connection* connection = nullptr;
    std::list<Stream>::iterator place{};
    Text text{};                ///< that is being sent; empty: nothing to send
    std::size_t sent = 0;       ///< bytes of it
    std::uint64_t version = 0;  ///< of the last event; 0: none
    bool is_suspended = false;
    Clock::time_point last_sent{};
  };

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* content,
                               std::size_t* content_size, void** request);
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode code);
  static void on_answered(void* self, MHD_Connection* connection, void** request,
                          MHD_RequestTerminationCode code);
  static ssize_t read_stream(void* stream, std::uint64_t position, char* buffer, std::size_t most);
  static void forget_stream(void* stream);

  void start_daemon(const UniqueFd& listening);
  void watch();
  Text look();
  void publish(Text event);
  void note_request(MHD_Connection* connection);
  MHD_Result answer(MHD_Connection* connection, std::string_view method, std::string_view path);
  MHD_Result answer_api(MHD_Connection* connection, std::string_view path);
  MHD_Result send_jobs(MHD_Connection* connection);
  MHD_Result open_stream(MHD_Connection* connection);
  MHD_Result let_in(MHD_Connection* connection);
  bool has_token(MHD_Connection* connection) const;
  std::string cookie_name() const { return fmt::format("lockstep_token_{}", port_); }

  const DashboardOptions options_;
  const TokenCheck token_;
  int port_ = 0;
  std::unordered_map<std::string_view, Response> page_;
  Response jobs_response_;
  std::uint64_t jobs_response_version_ = 0;
  DashboardState state_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< `is_stopping_`, or a stream has ended
  ConnectionTable connections_;
  std::list<Stream> streams_;
  Text event_;
  std::uint64_t version_ = 1;
  DashboardStatistics counts_{};  ///< without the open connections and streams
  bool is_stopping_ = false;
  bool is_ending_ = false;  ///< streams end when they have sent the newest event

  std::unique_ptr<MHD_Daemon, DaemonDeleter> daemon_;
  std::thread watcher_;
};

Service::Service(JobFeed& feed, const DashboardOptions& options)
    : options_(options),
      token_(options.token ? TokenCheck(*options.token) : TokenCheck()),
      state_(feed),
      connections_({.most = static_cast<std::size_t>(options.most_connections),
                    .request = options.patience,
                    .answer = options.patience * 4}),
      event_(make_event(*state_.text())) {
  const auto listening = listen_on(options);
  port_ = port_of(listening);
  for (const auto& file : page_files()) {
    page_.emplace(file.path, make_response(file.content, file.type));
  }
  publish(look());
  const SignalsBlocked blocked;
  start_daemon(listening);
  watcher_ = std::thread([this] { watch(); });
}

Service::~Service() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  watcher_.join();
  auto event = look();
  std::unique_lock lock(mutex_);
  is_ending_ = true;
  publish(std::move(event));
  changed_.wait_for(lock, kForLastState, [this] { return streams_.empty(); });
  lock.unlock();
  daemon_.reset();
}

void Service::start_daemon(const UniqueFd& listening) {
  using std::chrono::ceil;
  using std::chrono::seconds;
  // libmicrohttpd closes the socket that it is given, so it gets a copy.
  const int fd = ::fcntl(listening.get(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) throw io_error("dashboard");
  const auto idle = static_cast<unsigned>(ceil<seconds>(options_.patience * 4).count());
  daemon_.reset(::MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0,
                                   nullptr, nullptr, &Service::on_request, this,           //
                                   MHD_OPTION_LISTEN_SOCKET, static_cast<MHD_socket>(fd),  //
                                   MHD_OPTION_CONNECTION_LIMIT,
                                   static_cast<unsigned>(options_.most_connections),             //
                                   MHD_OPTION_CONNECTION_TIMEOUT, idle,                          //
                                   MHD_OPTION_CONNECTION_MEMORY_LIMIT, kBytesPerConnection,      //
                                   MHD_OPTION_STRICT_FOR_CLIENT, 1,                              //
                                   MHD_OPTION_UNESCAPE_CALLBACK, &keep_encoded, nullptr,         //
                                   MHD_OPTION_NOTIFY_CONNECTION, &Service::on_connection, this,  //
                                   MHD_OPTION_NOTIFY_COMPLETED, &Service::on_answered, this,     //
                                   MHD_OPTION_END));
  if (!daemon_) throw Error(ErrorKind::Io, "dashboard: libmicrohttpd could not be started");
}

/// Asks the feed at each interval, and looks for slow clients more often.
void Service::watch() {
  auto next_look = Clock::now() + options_.interval;
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (Clock::now() >= next_look) {
      lock.unlock();
      auto event = look();
      lock.lock();
      publish(std::move(event));
      next_look = Clock::now() + options_.interval;
    }
    connections_.close_overdue(Clock::now());
    const auto next = std::min(next_look, Clock::now() + kBetweenChecks);
    changed_.wait_until(lock, next, [this] { return is_stopping_; });
  }
}

/// Asks the feed. Returns the event for the streams, or nothing if the state has not changed.
Text Service::look() {
  const auto before = state_.version();
  state_.refresh();
  return state_.version() == before ? nullptr : make_event(*state_.text());
}

/// Makes an event the newest one, and resumes the streams that have something to send. The caller
/// has locked `mutex_`.
void Service::publish(Text event) {
  static const Text kSignOfLife = std::make_shared<const std::string>(": still here\n\n");
  if (event) {
    event_ = std::move(event);
    ++version_;
  }
  const auto now = Clock::now();
  for (auto& stream : streams_) {
    if (!stream.is_suspended) continue;
    const bool has_news = stream.version != version_ || is_ending_;
    if (!has_news && now - stream.last_sent <= kLongestSilence) continue;
    if (!has_news) stream.text = kSignOfLife;
    stream.is_suspended = false;
    ::MHD_resume_connection(stream.connection);
  }
}

ssize_t Service::read_stream(void* stream, std::uint64_t, char* buffer, std::size_t most) {
  auto& self = *static_cast<Stream*>(stream);
  auto& service = *self.service;
  const std::lock_guard lock(service.mutex_);
  if (!self.text && self.version != service.version_) {
    self.text = service.event_;
    self.version = service.version_;
  }
  if (!self.text) {
    if (service.is_ending_) return MHD_CONTENT_READER_END_OF_STREAM;
    self.is_suspended = true;
    ::MHD_suspend_connection(self.connection);
    return 0;
  }
  const auto count = self.text->copy(buffer, most, self.sent);
  self.sent += count;
  self.last_sent = Clock::now();
  if (self.sent == self.text->size()) {
    self.text.reset();
    self.sent = 0;
  }
  return static_cast<ssize_t>(count);
}

void Service::forget_stream(void* stream) {
  auto& self = *static_cast<Stream*>(stream);
  auto& service = *self.service;
  const std::lock_guard lock(service.mutex_);
  service.streams_.erase(self.place);
  service.changed_.notify_all();
}

void Service::on_connection(void* self, MHD_Connection* connection, void**,
                            MHD_ConnectionNotificationCode code) {
  auto& service = *static_cast<Service*>(self);
  const std::lock_guard lock(service.mutex_);
  if (code == MHD_CONNECTION_NOTIFY_CLOSED) {  // the socket is still open
    service.connections_.remove(connection);
    return;
  }
  const auto* const info = ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  ++service.counts_.connections;
  service.connections_.add(connection, info->connect_fd, Clock::now());
}

void Service::on_answered(void* self, MHD_Connection* connection, void**,
                          MHD_RequestTerminationCode code) {
  auto& service = *static_cast<Service*>(self);
  const std::lock_guard lock(service.mutex_);
  if (code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED) ++service.counts_.given_up;
  service.connections_.begin_request(connection, Clock::now());
}

/// libmicrohttpd calls it when it has the headers, and again when the request is complete.
MHD_Result Service::on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char*, const char*,
                               std::size_t* content_size, void** request) {
  auto& service = *static_cast<Service*>(self);
  try {
    if (*request == nullptr) {
      *request = self;
      if (!has_body(connection)) return MHD_YES;
      service.note_request(connection);
      return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "The dashboard takes no content.");
    }
    if (*content_size != 0) return MHD_NO;
    service.note_request(connection);
    return service.answer(connection, method, url);
  } catch (const std::exception&) {
    return MHD_NO;  // closes the connection; the only possible cause is a lack of memory
  }
}

void Service::note_request(MHD_Connection* connection) {
  const std::lock_guard lock(mutex_);
  ++counts_.requests;
  connections_.begin_answer(connection, Clock::now());
}

MHD_Result Service::answer(MHD_Connection* connection, std::string_view method,
                           std::string_view path) {
  if (method != "GET" && method != "HEAD") {
    return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                  "The dashboard answers only GET and HEAD.");
  }
  if (!is_our_name(header_of(connection, "Host"), options_.names)) {
    return refuse(connection, MHD_HTTP_MISDIRECTED_REQUEST,
                  "This server has another name. Use localhost, or its address as numbers.");
  }
  if (token_.is_needed() && !has_token(connection)) return let_in(connection);
  if (path.starts_with("/api/")) return answer_api(connection, path);
  if (const auto file = page_.find(path); file != page_.end()) {
    return ::MHD_queue_response(connection, MHD_HTTP_OK, file->second.get());
  }
  return refuse(connection, MHD_HTTP_NOT_FOUND, "There is no such page.");
}

bool Service::has_token(MHD_Connection* connection) const {
  constexpr std::string_view kBearer = "Bearer ";
  const auto authorization = header_of(connection, "Authorization");
  if (authorization.starts_with(kBearer)) {
    return token_.accepts(authorization.substr(kBearer.size()));
  }
  const auto value = cookie(header_of(connection, "Cookie"), cookie_name());
  return value && token_.accepts(*value);
}

/// Moves a token from the address into a cookie, so that it stays neither in the address bar, where
/// others could see it, nor in the browser's history.
MHD_Result Service::let_in(MHD_Connection* connection) {
  const char* token = ::MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
  if (token == nullptr || !token_.accepts(token)) {
    return refuse(connection, MHD_HTTP_UNAUTHORIZED,
                  "A token is needed: open the address that lockstep has shown, with its token.");
  }
  const auto response = make_sentence("Continue to the page.");
  add_header(response.get(), "Location", "/");
  add_header(response.get(), "Set-Cookie",
             fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(), token));
  return ::MHD_queue_response(connection, MHD_HTTP_SEE_OTHER, response.get());
}

MHD_Result Service::answer_api(MHD_Connection* connection, std::string_view path) {
  if (is_from_another_site(connection)) {
    return refuse(connection, MHD_HTTP_FORBIDDEN, "The dashboard answers only its own page.");
  }
  if (path == "/api/jobs") return send_jobs(connection);
  if (path == "/api/stream") return open_stream(connection);
  return refuse(connection, MHD_HTTP_NOT_FOUND, "There is no such page.");
}

/// All clients that ask for the same state share one response.
MHD_Result Service::send_jobs(MHD_Connection* connection) {
  std::unique_lock lock(mutex_);
  const auto event = event_;
  const auto version = version_;
  lock.unlock();
  if (jobs_response_version_ != version) {
    auto state = std::string_view(*event);
    state.remove_prefix(kEventHead.size());
    state.remove_suffix(kEventTail.size());
    jobs_response_ = make_response(state, "application/json");
    jobs_response_version_ = version;
  }
  return ::MHD_queue_response(connection, MHD_HTTP_OK, jobs_response_.get());
}

MHD_Result Service::open_stream(MHD_Connection* connection) {
  std::unique_lock lock(mutex_);
  const bool is_full = streams_.size() >= static_cast<std::size_t>(options_.most_streams);
  Stream* stream = nullptr;
  if (!is_full) {
    stream = &streams_.emplace_front(Stream{.service = this, .connection = connection});
    stream->place = streams_.begin();
    connections_.begin_stream(connection);
  }
  lock.unlock();
  if (is_full) {
    return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many pages are open; close one.");
  }
  auto* const made = ::MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlockBytes,
                                                         read_stream, stream, forget_stream);
  if (made == nullptr) forget_stream(stream);
  const auto response = with_headers(made, "text/event-stream");
  return ::MHD_queue_response(connection, MHD_HTTP_OK, response.get());
}

std::string Service::url() const {
  const auto& named = options_.names.empty() ? options_.address : options_.names.front();
  const auto host = named.find(':') == std::string::npos ? named : fmt::format("[{}]", named);
  const auto token = options_.token ? fmt::format("?token={}", *options_.token) : std::string();
  return fmt::format("http://{}:{}/{}", host, port_, token);
}

DashboardStatistics Service::statistics() const {
  const std::lock_guard lock(mutex_);
  auto statistics = counts_;
  statistics.given_up += connections_.closed();
  statistics.open_connections = static_cast<int>(connections_.size());
  statistics.open_streams = static_cast<int>(streams_.size());
  return statistics;
}

}  // namespace

bool dashboard_is_built() noexcept {
  return true;
}

std::unique_ptr<DashboardServer> serve_dashboard(JobFeed& feed, const DashboardOptions& options) {
  check(options);
  return std::make_unique<Service>(feed, options);
}

}  // namespace lockstep::monitor
