#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/process.h"

namespace tilewright::cli {

void stop_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, signal);
  // Threads made later inherit the mask, so only the thread below receives them; programs that are started do (runtime/process.cc clears it).
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    while (sigwait(&signals, &signal) != 0) {
    }
    if (isatty(2)) (void)!write(2, "\n", 1);
    stop_commands();
    remove_temporaries();
    std::_Exit(128 + signal);
  }).detach();
}

}  // namespace tilewright::cli
