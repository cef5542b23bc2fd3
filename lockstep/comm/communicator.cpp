#include "lockstep/comm/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/comm/checked_operation.h"
#include "lockstep/comm/transport.h"
#include "lockstep/comm/tree_node.h"
#include "lockstep/comm/work_queue.h"

namespace lockstep::comm {
namespace {

int this_thread() noexcept {
  thread_local const int id = ::gettid();
  return id;
}

/// As long as it lives, a collective is under way.
class ToldCollective {
 public:
  ToldCollective(events::StatusSink* sink, const Operation& operation) noexcept : sink_(sink) {
    if (sink_ == nullptr) return;
    std::array<char, 64> name;  // what a status page has room for
    const auto end = fmt::format_to_n(name.data(), name.size(), "{}{}{}", name_of(operation.kind),
                                      operation.name.empty() ? "" : " ", operation.name)
                         .out;
    sink_->enter_collective({name.data(), static_cast<std::size_t>(end - name.data())});
  }
  ~ToldCollective() {
    if (sink_ != nullptr) sink_->leave_collective();
  }
  ToldCollective(const ToldCollective&) = delete;
  ToldCollective& operator=(const ToldCollective&) = delete;

 private:
  events::StatusSink* sink_;
};

}  // namespace

struct Communicator::Impl {
  std::unique_ptr<Transport> transport;
  events::StatusSink* status = nullptr;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups;
  const std::vector<int>* scope = nullptr;  ///< the group that `on_instances` runs on
  WorkQueue queue;                          // last: it uses the transport while it closes
};

Communicator::Communicator(std::unique_ptr<Transport> transport) : impl_(std::make_unique<Impl>()) {
  impl_->transport = std::move(transport);
}

Communicator::~Communicator() = default;

int Communicator::rank() const noexcept {
  return impl_->transport->rank();
}
int Communicator::size() const noexcept {
  return static_cast<int>(instances().size());
}
std::span<const int> Communicator::instances() const noexcept {
  return impl_->transport->instances();
}

std::span<const int> Communicator::hosts() const noexcept {
  return impl_->transport->hosts();
}
int Communicator::num_hosts() const noexcept {
  return 1 + std::ranges::max(hosts());
}

std::vector<int> Communicator::instances_of_host(int host) const {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < instances().size(); ++rank) {
    if (hosts()[rank] == host) found.push_back(instances()[rank]);
  }
  return found;
}

Communicator& Communicator::on_this_host() {
  return num_hosts() == 1 ? *this
                          : group(instances_of_host(hosts()[static_cast<std::size_t>(rank())]));
}

Communicator& Communicator::leaders() {
  std::vector<int> first;
  for (int host = 0; host < num_hosts(); ++host) first.push_back(instances_of_host(host).front());
  return static_cast<int>(first.size()) == size() ? *this : group(first);
}

bool Communicator::is_leader() const noexcept {
  const auto before = hosts().first(static_cast<std::size_t>(rank()));
  return std::ranges::count(before, hosts()[before.size()]) == 0;
}

void Communicator::heartbeat(std::string_view doing) {
  impl_->transport->heartbeat(doing);
}

void Communicator::report_failure(const Error& error) noexcept {
  impl_->transport->report_failure(error);
}

void Communicator::check_scope(OperationKind kind) const {
  if (impl_->scope == nullptr) return;
  throw Error(ErrorKind::Options,
              fmt::format("{}: called on instances {} inside on_instances({})", name_of(kind),
                          fmt::join(instances(), ","), fmt::join(*impl_->scope, ",")),
              "use the communicator that is handed to the function");
}

Work Communicator::start(Operation operation) {
  check_scope(operation.kind);
  operation.caller = this_thread();
  return impl_->queue.push([transport = impl_->transport.get(), status = impl_->status,
                            operation = std::move(operation)] {
    const ToldCollective told(status, operation);
    transport->execute(operation);
  });
}

/// On the caller's own thread where nothing is under way: handing it over costs more than a small
/// operation takes.
void Communicator::run(Operation operation) {
  if (impl_->scope == nullptr && impl_->queue.is_idle()) {
    operation.caller = this_thread();
    const ToldCollective told(impl_->status, operation);
    impl_->transport->execute(operation);
  } else {
    start(std::move(operation)).wait();
  }
}

void Communicator::all_reduce(Buffer buffer, ReduceOp op) {
  run(checked::all_reduce({&buffer, 1}, op));
}

void Communicator::all_reduce(std::span<const Buffer> buffers, ReduceOp op) {
  run(checked::all_reduce(buffers, op));
}

void Communicator::all_reduce_leaves(std::span<const ConstBuffer> leaves, Buffer result,
                                     ReduceOp op) {
  run(checked::all_reduce_leaves(leaves, result, op));
}

void Communicator::all_reduce_nodes(std::span<const TreeNode> nodes,
                                    std::span<const ConstBuffer> data, int num_leaves,
                                    Buffer result) {
  if (num_hosts() < size()) {
    throw Error(ErrorKind::Options,
                fmt::format("all_reduce_nodes: expected one instance of each host, found {} "
                            "instances of {} hosts",
                            size(), num_hosts()),
                "Communicator::leaders()");
  }
  run(checked::all_reduce_nodes(nodes, data, num_leaves, result));
}

void Communicator::reduce_scatter(ConstBuffer blocks, Buffer result, ReduceOp op) {
  run(checked::reduce_scatter(blocks, result, op, size()));
}

void Communicator::all_gather(ConstBuffer block, Buffer blocks) {
  run(checked::all_gather(block, blocks, size()));
}

void Communicator::broadcast(Buffer buffer, int root) {
  run(checked::broadcast(buffer, root, size()));
}

void Communicator::gather(ConstBuffer block, Buffer blocks, int root) {
  run(checked::gather(block, blocks, {root, rank(), size()}));
}

void Communicator::scatter(ConstBuffer blocks, Buffer block, int root) {
  run(checked::scatter(blocks, block, {root, rank(), size()}));
}

void Communicator::barrier(std::string_view name) {
  run(checked::barrier(name));
}

int Communicator::instance() const noexcept {
  return instances()[static_cast<std::size_t>(rank())];
}

void Communicator::check_members(const std::vector<int>& members) const {
  const auto all = instances();
  const bool is_valid =
      !members.empty() &&
      std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end() &&
      std::includes(all.begin(), all.end(), members.begin(), members.end());
  if (is_valid) return;
  throw Error(ErrorKind::Options,
              fmt::format("group: expected some of instances {}, ascending, found {}",
                          fmt::join(all, ","), fmt::join(members, ",")));
}

Communicator& Communicator::group(const std::vector<int>& members) {
  check_members(members);
  if (!std::binary_search(members.begin(), members.end(), instance())) {
    throw Error(ErrorKind::Options, fmt::format("group: instance {} is not one of {}", instance(),
                                                fmt::join(members, ",")));
  }
  auto& group = impl_->groups[members];
  if (!group) {
    group = std::make_unique<Communicator>(impl_->transport->group(members));
    group->watch(impl_->status);
  }
  return *group;
}

Communicator::Scope::Scope(Communicator& communicator, const std::vector<int>& members)
    : outer(communicator), before(communicator.impl_->scope) {
  outer.check_members(members);
  if (!std::binary_search(members.begin(), members.end(), outer.instance())) return;
  group = &outer.group(members);
  outer.impl_->scope = &outer.impl_->groups.find(members)->first;
}

Communicator::Scope::~Scope() {
  outer.impl_->scope = before;
}

void Communicator::prepare_to_allocate(std::size_t bytes, std::string_view name) {
  if (bytes == 0) {
    throw Error(ErrorKind::Options, fmt::format("allocate \"{}\": expected bytes, found 0", name));
  }
  check_scope(OperationKind::Allocate);
  // What is under way goes first, as for every collective.
  if (!impl_->queue.is_idle()) impl_->queue.push([] {}).wait();
}

SharedMemory Communicator::allocate(std::size_t bytes, std::string_view name) {
  prepare_to_allocate(bytes, name);
  return impl_->transport->allocate(bytes, name);
}

KeptPiece Communicator::keep(std::size_t bytes, std::string_view name, std::uint64_t fingerprint) {
  prepare_to_allocate(bytes, name);
  return impl_->transport->keep(bytes, name, fingerprint);
}

void Communicator::watch(events::StatusSink* sink) noexcept {
  impl_->status = sink;
  for (const auto& [members, group] : impl_->groups) group->watch(sink);
}

events::StatusSink* Communicator::watched_by() const noexcept {
  return impl_->status;
}

void Communicator::note_step(std::int64_t step) noexcept {
  impl_->transport->note_step(step);
}

Communicator::Async Communicator::async() noexcept {
  return Async(*this);
}

Work Communicator::Async::all_reduce(Buffer buffer, ReduceOp op) {
  return communicator_.start(checked::all_reduce({&buffer, 1}, op));
}

Work Communicator::Async::all_reduce(std::span<const Buffer> buffers, ReduceOp op) {
  return communicator_.start(checked::all_reduce(buffers, op));
}

Work Communicator::Async::all_reduce_leaves(std::span<const ConstBuffer> leaves, Buffer result,
                                            ReduceOp op) {
  return communicator_.start(checked::all_reduce_leaves(leaves, result, op));
}

Work Communicator::Async::reduce_scatter(ConstBuffer blocks, Buffer result, ReduceOp op) {
  return communicator_.start(checked::reduce_scatter(blocks, result, op, communicator_.size()));
}

Work Communicator::Async::all_gather(ConstBuffer block, Buffer blocks) {
  return communicator_.start(checked::all_gather(block, blocks, communicator_.size()));
}

Work Communicator::Async::broadcast(Buffer buffer, int root) {
  return communicator_.start(checked::broadcast(buffer, root, communicator_.size()));
}

Work Communicator::Async::gather(ConstBuffer block, Buffer blocks, int root) {
  return communicator_.start(
      checked::gather(block, blocks, {root, communicator_.rank(), communicator_.size()}));
}

Work Communicator::Async::scatter(ConstBuffer blocks, Buffer block, int root) {
  return communicator_.start(
      checked::scatter(blocks, block, {root, communicator_.rank(), communicator_.size()}));
}

Work Communicator::Async::barrier(std::string_view name) {
  return communicator_.start(checked::barrier(name));
}

}  // namespace lockstep::comm
