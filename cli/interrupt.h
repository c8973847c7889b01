// Ctrl-C: the command stops at once, with status 130, and leaves no temporary or partial file behind.
#pragma once

namespace tilewright::cli {

/// Called first in main, before any thread exists: from then on SIGINT and SIGTERM are taken by a thread of their own, which removes the files that are being
/// written and the temporary folder (remove_temporaries) and ends the process with 128 + the signal's number.
void stop_on_signals();

}  // namespace tilewright::cli
