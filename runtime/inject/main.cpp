// mdl-inject: measures a running process by a compiled plan. docs/injection.md has the whole story.
#include "runtime/inject/commands.h"
#include "runtime/inject/options.h"
#include "runtime/inject/session.h"

int main(int argc, char** argv) {
  using namespace mdl::inject;
  Parsed parsed = parse_options(argc, argv);
  if (parsed.exit) return *parsed.exit;
  switch (parsed.options.command) {
    case Command::measure: return measure(parsed.options);
    case Command::list: return list(parsed.options);
    case Command::status: return status(parsed.options);
    case Command::remove: return remove(parsed.options);
    case Command::verify: return verify(parsed.options);
  }
}
