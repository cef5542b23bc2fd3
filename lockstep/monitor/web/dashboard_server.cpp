#include "lockstep/monitor/web/dashboard_server.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/monitor/web/access.h"
#include "lockstep/monitor/web/connection_table.h"
#include "lockstep/monitor/web/dashboard_state.h"
#include "lockstep/monitor/web/page_files.h"

namespace lockstep::monitor {
namespace {

using Clock = ConnectionTable::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kBytesPerConnection = std::size_t{16} << 10;
constexpr milliseconds kForLastState{300};

// Each answer has these headers: nothing is loaded from elsewhere, framed, cached or guessed.
// Scripts and styles are only our own files: no text of a job can become one.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"}};

void check(const DashboardOptions& options) {
  if (options.token) check_token(*options.token);
  if (!options.token && options.address != "localhost" && !is_loopback(options.address)) {
    throw Error(
        ErrorKind::Options,
        fmt::format(
            "dashboard: other machines can reach {}, so a token is required, but none was given",
            options.address),
        "give a token, or serve on 127.0.0.1 and reach it through ssh -L");
  }
  if (options.most_waiting > options.most_connections / 2) {
    throw Error(ErrorKind::Bug,
                "dashboard: waiting requests may use at most half of the connections");
  }
  if (options.port < 0 || options.port > 65535) {
    throw Error(
        ErrorKind::Options,
        fmt::format("dashboard: expected a port of 1 to 65535, or 0 for a free one, found {}",
                    options.port));
  }
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses parse_address(const DashboardOptions& options) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
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

/// An answer that may be sent on many connections at once, and stays until the last of them has
/// sent it: libmicrohttpd counts references too.
using Response = std::shared_ptr<MHD_Response>;

void add_header(const Response& response, const char* name, const std::string& value) {
  if (::MHD_add_response_header(response.get(), name, value.c_str()) == MHD_YES) return;
  throw Error(ErrorKind::Bug, fmt::format("dashboard: libmicrohttpd refuses the header {}", name));
}

Response make_response(std::string_view content, std::string_view type) {
  // libmicrohttpd copies the content; its parameter is not const because of other modes.
  auto* const made = ::MHD_create_response_from_buffer(
      content.size(), const_cast<char*>(content.data()), MHD_RESPMEM_MUST_COPY);
  if (made == nullptr) throw Error(ErrorKind::Io, "dashboard: out of memory for an answer");
  Response response(made, &::MHD_destroy_response);
  add_header(response, "Content-Type", std::string(type));
  for (const auto& [name, value] : kHeaders) add_header(response, name, value);
  return response;
}

struct Answer {
  unsigned status = MHD_HTTP_OK;
  Response response;  ///< empty if the request has to wait
};

Answer refuse(unsigned status, std::string_view sentence) {
  return {status, make_response(fmt::format("{}\n", sentence), "text/plain; charset=utf-8")};
}

std::string_view find_value(MHD_Connection* connection, MHD_ValueKind kind, const char* name) {
  const char* value = ::MHD_lookup_connection_value(connection, kind, name);
  return value == nullptr ? std::string_view() : value;
}

std::string_view header_of(MHD_Connection* connection, const char* name) {
  return find_value(connection, MHD_HEADER_KIND, name);
}

bool has_body(MHD_Connection* connection) {
  const auto length = header_of(connection, "Content-Length");
  return !header_of(connection, "Transfer-Encoding").empty() || (!length.empty() && length != "0");
}

/// Does not decode paths: no path of ours needs it, and "%00" would cut a path.
std::size_t keep_encoded(void*, MHD_Connection*, char* text) {
  return std::strlen(text);
}

/// libmicrohttpd's thread runs all callbacks (`on_…`). `watcher_` alone uses `state_`. Both share
/// the members below `mutex_`.
///
/// libmicrohttpd calls back without holding a lock of its own that its functions need, and
/// `MHD_suspend_connection`, `MHD_resume_connection` and `MHD_create_response_from_buffer` do not
/// call back. So these functions may be called with `mutex_` locked.
class Service final : public DashboardServer {
 public:
  Service(JobFeed& feed, const DashboardOptions& options)
      : options_(options), state_(feed), connections_(options.most_connections) {
    for (const auto& file : page_files()) {
      page_.emplace(file.path, make_response(file.content, file.type));
    }
    look();
    start_daemon();
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }

  ~Service() override {
    watcher_.request_stop();
    watcher_.join();
    look_if_possible();
    std::unique_lock lock(mutex_);
    is_ending_ = true;
    answer_waiting();
    // A page that has the last state asks again, and its connection is closed then.
    changed_.wait_for(lock, kForLastState, [this] { return connections_.is_empty(); });
    lock.unlock();
    daemon_.reset();
  }

  int port() const override { return port_; }

  std::string url() const override {
    const auto& named = options_.names.empty() ? options_.address : options_.names.front();
    const auto host = named.find(':') == std::string::npos ? named : fmt::format("[{}]", named);
    const auto token = options_.token ? fmt::format("?token={}", *options_.token) : std::string();
    return fmt::format("http://{}:{}/{}", host, port_, token);
  }

 private:
  struct DaemonDeleter {
    void operator()(MHD_Daemon* daemon) const { ::MHD_stop_daemon(daemon); }
  };

  void start_daemon() {
    const std::lock_guard lock(mutex_);  // no connection is accepted before `port_` is known
    const auto address = parse_address(options_);
    const auto version = address->ai_family == AF_INET6 ? MHD_USE_DUAL_STACK : MHD_NO_FLAG;
    // The watcher closes slow connections too, but not while the feed blocks.
    const auto idle =
        static_cast<unsigned>(std::chrono::ceil<seconds>(options_.patience * 4).count());
    daemon_.reset(
        ::MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | version, 0,
                           nullptr, nullptr, &Service::on_request, this,                 //
                           MHD_OPTION_SOCK_ADDR, address->ai_addr,                       //
                           MHD_OPTION_CONNECTION_LIMIT, options_.most_connections,       //
                           MHD_OPTION_CONNECTION_TIMEOUT, idle,                          //
                           MHD_OPTION_CONNECTION_MEMORY_LIMIT, kBytesPerConnection,      //
                           MHD_OPTION_STRICT_FOR_CLIENT, 1,                              //
                           MHD_OPTION_UNESCAPE_CALLBACK, &keep_encoded, nullptr,         //
                           MHD_OPTION_NOTIFY_CONNECTION, &Service::on_connection, this,  //
                           MHD_OPTION_NOTIFY_COMPLETED, &Service::on_answered, this,     //
                           MHD_OPTION_END));
    if (!daemon_) {
      const auto why =
          io_error(fmt::format("dashboard: port {} of {}", options_.port, options_.address));
      throw Error(why.kind(), why.what(), "choose another port, or 0 for one that is free");
    }
    port_ = ::MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_BIND_PORT)->port;
  }

  /// Without memory for an answer, the pages keep the state that they have.
  void look_if_possible() noexcept {
    try {
      look();
    } catch (const std::exception&) {
    }
  }

  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    const auto must_stop = [&] { return stop.stop_requested(); };
    while (!changed_.wait_for(lock, stop, options_.interval, must_stop)) {
      lock.unlock();
      look_if_possible();
      lock.lock();
      connections_.close_overdue(Clock::now());
    }
  }

  /// Asks the feed, and answers the waiting requests if the jobs have changed. Also answers them
  /// after a long wait, because a client that has gone is noticed only when the server sends to it.
  void look() {
    const auto text = state_.refresh();
    const auto tag = fmt::format("\"{:016x}\"", std::hash<std::string>()(text));
    const bool is_new = tag != tag_;
    auto jobs = is_new ? make_response(text, "application/json") : nullptr;
    if (is_new) add_header(jobs, "ETag", tag);
    const std::lock_guard lock(mutex_);
    if (is_new) {
      jobs_ = std::move(jobs);
      tag_ = tag;
    }
    if (is_new || Clock::now() - last_answer_ > 2 * options_.patience) answer_waiting();
  }

  /// Lets libmicrohttpd call `on_request` again for the waiting requests. The caller has locked
  /// `mutex_`.
  void answer_waiting() {
    for (auto* const connection : waiting_) ::MHD_resume_connection(connection);
    waiting_.clear();
    last_answer_ = Clock::now();
  }

  static void on_connection(void* self, MHD_Connection* connection, void**,
                            MHD_ConnectionNotificationCode code) {
    auto& service = *static_cast<Service*>(self);
    const std::lock_guard lock(service.mutex_);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {  // the socket is still open
      service.connections_.remove(connection);
      service.changed_.notify_all();
      return;
    }
    const auto* const info =
        ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    service.connections_.add(connection, info->connect_fd,
                             Clock::now() + service.options_.patience);
  }

  static void on_answered(void* self, MHD_Connection* connection, void**,
                          MHD_RequestTerminationCode) {
    auto& service = *static_cast<Service*>(self);
    service.set_patience(connection, service.options_.patience);
  }

  void set_patience(MHD_Connection* connection, milliseconds patience) {
    const std::lock_guard lock(mutex_);
    connections_.set_deadline(connection, Clock::now() + patience);
  }

  /// libmicrohttpd calls it when it has the headers, again when the request is complete, and again
  /// when the request has waited.
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path,
                               const char* method, const char*, const char*,
                               std::size_t* content_size, void** request) {
    auto& service = *static_cast<Service*>(self);
    const bool is_complete = *request != nullptr;
    if (!is_complete) *request = self;
    if (*content_size != 0) return MHD_NO;
    if (!is_complete && !has_body(connection)) return MHD_YES;
    service.set_patience(connection, 4 * service.options_.patience);
    try {
      const auto answer = is_complete ? service.answer(connection, method, path, request)
                                      : refuse(MHD_HTTP_CONTENT_TOO_LARGE,
                                               "The dashboard accepts no request body.");
      if (!answer.response) return MHD_YES;
      return ::MHD_queue_response(connection, answer.status, answer.response.get());
    } catch (const std::exception&) {
      return MHD_NO;  // closes the connection; the only possible cause is a lack of memory
    }
  }

  Answer answer(MHD_Connection* connection, std::string_view method, std::string_view path,
                void** request) {
    if (method != "GET" && method != "HEAD") {
      return refuse(MHD_HTTP_METHOD_NOT_ALLOWED, "The dashboard answers only GET and HEAD.");
    }
    if (!is_our_name(header_of(connection, "Host"), options_.names)) {
      return refuse(MHD_HTTP_MISDIRECTED_REQUEST,
                    "This server has another name. Use localhost, or its address as numbers.");
    }
    if (options_.token && !has_token(connection)) return let_in(connection);
    if (path == "/api/jobs") return answer_jobs(connection, request);
    if (const auto file = page_.find(path); file != page_.end()) return {.response = file->second};
    return refuse(MHD_HTTP_NOT_FOUND, "There is no such page.");
  }

  bool has_token(MHD_Connection* connection) const {
    constexpr std::string_view kBearer = "Bearer ";
    const auto authorization = header_of(connection, "Authorization");
    const auto given = authorization.starts_with(kBearer)
                           ? authorization.substr(kBearer.size())
                           : cookie(header_of(connection, "Cookie"), cookie_name());
    return is_same_token(given, *options_.token);
  }

  /// Moves a token from the address into a cookie, so that it stays neither in the address bar,
  /// where others could see it, nor in the browser's history.
  Answer let_in(MHD_Connection* connection) const {
    const auto token = find_value(connection, MHD_GET_ARGUMENT_KIND, "token");
    if (!is_same_token(token, *options_.token)) {
      return refuse(MHD_HTTP_UNAUTHORIZED,
                    "A token is needed: open the address that lockstep has shown, with its token.");
    }
    auto answer = refuse(MHD_HTTP_SEE_OTHER, "Continue to the page.");
    add_header(answer.response, "Location", "/");
    add_header(answer.response, "Set-Cookie",
               fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(), token));
    return answer;
  }

  /// Answers with the jobs. A client that has them already may wait for a change, once for each
  /// request: `request` then points to `waiting_`.
  Answer answer_jobs(MHD_Connection* connection, void** request) {
    // Another site's page may send requests from the user's browser, and must not use up places.
    const auto site = header_of(connection, "Sec-Fetch-Site");
    if (!site.empty() && site != "same-origin" && site != "none") {
      return refuse(MHD_HTTP_FORBIDDEN, "The dashboard answers only its own page.");
    }
    const std::lock_guard lock(mutex_);
    // A proxy that compresses answers makes an entity tag weak.
    auto known = header_of(connection, "If-None-Match");
    if (known.starts_with("W/")) known.remove_prefix(2);
    if (known != tag_) return {.response = jobs_};
    if (is_ending_) {
      auto answer = refuse(MHD_HTTP_SERVICE_UNAVAILABLE, "The dashboard ends.");
      add_header(answer.response, "Connection", "close");
      return answer;
    }
    if (*request == &waiting_ || header_of(connection, "Prefer").empty()) {
      auto answer = Answer{MHD_HTTP_NOT_MODIFIED, make_response("", "application/json")};
      add_header(answer.response, "ETag", tag_);
      return answer;
    }
    if (waiting_.size() >= options_.most_waiting) {
      return refuse(MHD_HTTP_SERVICE_UNAVAILABLE, "Too many pages are open; close one.");
    }
    *request = &waiting_;
    waiting_.push_back(connection);
    connections_.set_deadline(connection, ConnectionTable::kNoDeadline);
    ::MHD_suspend_connection(connection);
    return {};
  }

  std::string cookie_name() const { return fmt::format("lockstep_token_{}", port_); }

  const DashboardOptions options_;
  int port_ = 0;
  std::map<std::string_view, Response> page_;
  DashboardState state_;

  std::mutex mutex_;
  std::condition_variable_any changed_;  ///< the watcher has to stop, or a connection has ended
  ConnectionTable connections_;
  std::vector<MHD_Connection*> waiting_;  ///< suspended until the jobs have changed
  Clock::time_point last_answer_{};       ///< to waiting requests
  Response jobs_;
  std::string tag_;         ///< of `jobs_`
  bool is_ending_ = false;  ///< nobody may wait any more

  std::unique_ptr<MHD_Daemon, DaemonDeleter> daemon_;
  std::jthread watcher_;
};

}  // namespace

bool dashboard_is_built() noexcept {
  return true;
}

std::unique_ptr<DashboardServer> serve_dashboard(JobFeed& feed, const DashboardOptions& options) {
  check(options);
  return std::make_unique<Service>(feed, options);
}

}  // namespace lockstep::monitor
