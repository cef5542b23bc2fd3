#pragma once

#include <optional>
#include <variant>

#include "lockstep/events/job_events.h"
#include "lockstep/launch/hosts/channel.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/machine.h"

namespace lockstep::launch {

// What the launcher and its agents tell each other, as messages. Both are of the same build, which
// is the first thing that is checked; reading a message that is none throws what nlohmann::json
// does.

/// What an agent tells of its instances.
using HostEvent = std::variant<events::InstanceStarted, events::InstanceOutput,
                               events::InstanceEnded, events::InstanceFailed,
                               events::InstanceStalled, events::LeftoversEnded, events::Warning>;

Message to_message(const events::InstanceStarted& event);
Message to_message(const events::InstanceOutput& event);
Message to_message(const events::InstanceEnded& event);
Message to_message(const events::InstanceFailed& event);
Message to_message(const events::InstanceStalled& event);
Message to_message(const events::LeftoversEnded& event);
Message to_message(const events::Warning& event);

/// Nothing for a message that tells of no event. Output is valid as long as the message.
std::optional<HostEvent> to_event(const Message& message);

Message to_message(const PlannedInstance& instance);
PlannedInstance to_planned_instance(const Message& message);

Message to_message(const topology::Machine& machine);
topology::Machine to_machine(const Message& message);

Message to_message(const topology::Environment& environment);
topology::Environment to_environment(const Message& message);

/// "do" of a command, "is" of an answer; empty where there is none.
std::string kind_of(const Message& message);

/// The time by this host's clock, in seconds, as clocks of hosts are compared by.
double seconds_of_day();

}  // namespace lockstep::launch
