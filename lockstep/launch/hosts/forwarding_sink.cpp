#include "lockstep/launch/hosts/forwarding_sink.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "lockstep/launch/hosts/wire.h"

namespace lockstep::launch {

void ForwardingSink::on(const events::InstanceStarted& event) {
  channel_.send(to_message(event));
}

void ForwardingSink::on(const events::InstanceOutput& event) {
  on_its_way_ += event.lines.size() + event.progress.size();
  channel_.send(to_message(event));
}

void ForwardingSink::on(const events::InstanceEnded& event) {
  auto message = to_message(event);
  // To judge, the launcher has to know whom the instances of this host gave up, and whether what
  // they would save is safe.
  message["given_up"] = memory_.given_up();
  message["kept"] = memory_.num_pieces() > 0;
  channel_.send(message);
}

void ForwardingSink::on(const events::InstanceFailed& event) {
  channel_.send(to_message(event));
}

void ForwardingSink::on(const events::InstanceStalled& event) {
  channel_.send(to_message(event));
}

void ForwardingSink::on(const events::LeftoversEnded& event) {
  channel_.send(to_message(event));
}

void ForwardingSink::on(const events::Warning& event) {
  channel_.send(to_message(event));
}

void ForwardingSink::note_taken(std::size_t bytes) {
  on_its_way_ -= std::min(on_its_way_, bytes);
}

std::vector<int> ForwardingSink::blocked_on() const {
  if (channel_.has_ended() || on_its_way_ < kMostOutput) return {};
  return {-1};
}

}  // namespace lockstep::launch
