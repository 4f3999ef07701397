// mdl-inject: measures a running process by a compiled plan. docs/injection.md says how.
#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "base/phases.h"
#include "base/say.h"
#include "base/shown_names.h"
#include "mdl-inject/catalogue.h"
#include "mdl-inject/commands.h"
#include "mdl-inject/compile.h"
#include "mdl-inject/find_process.h"
#include "mdl-inject/measure.h"
#include "mdl-inject/options.h"
#include "mdl-inject/resources.h"
#include "runtime/image/for_people.h"

namespace {

int run(const mdl::inject::Options& asked) {
  using namespace mdl::inject;
  if (asked.show_mdl) return show_mdl(asked);
  auto policy = read_policy();
  if (!policy) {
    // Whatever is wrong there, a process can be rid of us.
    if (asked.command != Command::status && asked.command != Command::remove) return fail(policy.error());
    mdl::say(stderr, "warning: {}: until that is mended, only --status and --remove work\n",
             policy.error().text);
    policy = Policy{};
  }
  Options options = asked;
  if (!options.process.empty() || options.names_several())
    if (auto ok = find_processes(options); !ok) return fail(ok.error());
  switch (options.command) {
    case Command::measure:
      tell_of_children(options);
      return measure(options, *policy);
    case Command::list:
      return lists_resources(options) ? list_resources(options, *policy) : list(options);
    case Command::status:
      return status(options);
    case Command::remove:
      return remove(options, *policy);
    case Command::check:
      return check(options);
    case Command::metrics:
      return print_metrics(options);
    case Command::introduce:
      return introduce(options);
    case Command::verify:
      return verify(options, *policy);
  }
  return static_cast<int>(mdl::Status::usage);
}

// A closed standard descriptor must not become one of the files that are opened later. Output to a standard
// output that was closed fails; messages are lost.
void open_standard_files() {
  for (int file = 0; file <= 2; file++)
    if (fcntl(file, F_GETFD) < 0) (void)open("/dev/null", file == 2 ? O_WRONLY : O_RDONLY);
}

// Success is what has reached its place: a full disk or a closed pipe is found at the flush.
int flushed(int status) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  mdl::Error error{fmt::format("cannot write to standard output: {}", std::strerror(errno))};
  error.is_quiet = errno == EPIPE;
  int failed = mdl::inject::fail(error);
  return status == 0 ? failed : status;
}

}  // namespace

int main(int argc, char** argv) {
  mdl::phases::begin("start");
  open_standard_files();
  mdl::show_names_by([](std::string_view text) {
    constexpr size_t kLongest = 120;
    return mdl::image::for_people(text, kLongest);
  });
  // A reader that goes away, or a full quota, must not end us with code in a process.
  for (int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  try {
    mdl::inject::Parsed parsed = mdl::inject::parse_options(argc, argv);
    return flushed(parsed.exit ? *parsed.exit : run(parsed.options));
  } catch (const std::bad_alloc&) {
    return mdl::inject::fail({"there is not enough memory for all that is asked for: ask for less at once"});
  } catch (const std::system_error& problem) {  // standard output that cannot be written
    mdl::Error error{problem.what()};
    error.is_quiet = problem.code() == std::errc::broken_pipe;
    return mdl::inject::fail(error);
  } catch (const std::exception& problem) {
    return mdl::inject::fail({problem.what()});
  }
}
