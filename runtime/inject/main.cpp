// mdl-inject: measures a running process by a compiled plan. docs/injection.md has the whole story.
#include <fmt/format.h>

#include <csignal>
#include <exception>

#include "runtime/inject/commands.h"
#include "runtime/inject/options.h"
#include "runtime/inject/session.h"

namespace {

int run(const mdl::inject::Options& options) {
  using namespace mdl::inject;
  switch (options.command) {
    case Command::measure:
      return measure(options);
    case Command::list:
      return list(options);
    case Command::status:
      return status(options);
    case Command::remove:
      return remove(options);
    case Command::verify:
      return verify(options);
  }
  return static_cast<int>(mdl::Status::usage);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away must not end us with code in a process
  try {
    mdl::inject::Parsed parsed = mdl::inject::parse_options(argc, argv);
    return parsed.exit ? *parsed.exit : run(parsed.options);
  } catch (const std::exception& problem) {  // standard output that cannot be written, memory
    return mdl::inject::fail({problem.what()});
  }
}
