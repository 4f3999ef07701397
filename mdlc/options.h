// The command line of mdlc (docs/man/mdlc.1).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/target.h"
#include "compiler/parse/parse.h"
#include "format/edition.h"

namespace mdl::mdlc {

enum class Emit : uint8_t { plan, ast, ir, assembly, mdl };
enum class Colour : uint8_t { automatic, always, never };
enum class Format : uint8_t { text, json, sarif };  // of diagnostics

struct Options {
  std::vector<std::string> files;
  std::vector<std::string> libraries;    // read before them, for what they define
  std::vector<std::string> queries;      // metrics in one line; the last of the plan, in this order
  std::vector<std::string> directories;  // where files are looked for, after the current one
  const backend::Target* target = nullptr;
  std::string cpu;     // "" = the target's default
  std::string output;  // "" = plan.bin for a plan, else standard output; "-" = standard output
  Standard standard = Standard::mdl26;
  std::string flavor;
  Emit emit = Emit::plan;
  bool check_only = false;
  bool cost = false;  // write a table of costs
  bool apply_fixes = false;
  bool reformat = false;
  bool language_server = false;
  bool in_place = false;  // with reformat: rewrite the files
  std::set<std::string, std::less<>> disabled_passes;
  WarningPolicy warnings;
  Colour colour = Colour::automatic;
  Format diagnostics = Format::text;
  std::string key;           // file of the private key that signs the plan; "" = it is not signed
  format::Edition edition;   // of the signed plan; no name = it has none
  std::string explain;       // a diagnostic's code or a warning's name
  std::string dependencies;  // the file that lists what the output was made of, for make
};

// The parsed options, or the exit status after help, the version or a usage error was printed.
struct Parsed {
  Options options;
  std::optional<int> exit;
};
Parsed parse_options(int argc, const char* const* argv);

}  // namespace mdl::mdlc
