// A tree of processes that do not want to end: they ignore SIGTERM, SIGINT and SIGHUP, and leave
// their process group, their session or their parent. Writes "ready" when all of them are there.
//
//   stubborn_tree [exit]   with "exit" the root itself ends at once, and leaves the others behind
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

namespace {

void sleep_for_ever() {
  while (true) ::pause();
}

template <typename Change>
void add_child(Change change) {
  if (::fork() != 0) return;
  change();
  sleep_for_ever();
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::signal(signal, SIG_IGN);
  add_child([] {});
  add_child([] { ::setpgid(0, 0); });
  add_child([] { ::setsid(); });
  add_child([] {  // a daemon: its parent is gone
    ::setsid();
    if (::fork() != 0) ::_exit(0);
  });
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, "ready\n", 6);
  if (argc > 1 && std::strcmp(argv[1], "exit") == 0) return 0;
  sleep_for_ever();
}
